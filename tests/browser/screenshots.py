"""Pictures of the main pages at every size and in both themes, and the README's (`make screenshots`).

It starts its own Parley and fills it with people and messages.
"""

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import django
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
django.setup()  # before the imports that need models

from tests.browser import people  # noqa: E402
from tests.browser.conftest import REGISTER  # noqa: E402
from tests.browser.people import Person  # noqa: E402
from tests.browser.views import CSV, views  # noqa: E402
from tests.chromium import CHROMIUM  # noqa: E402
from tests.stack import ROOT, running  # noqa: E402

SIZES = {"wide": (1440, 900), "medium": (768, 1024), "phone": (390, 844)}
THEMES = ("light", "dark")


README_PICTURES = ROOT / "docs" / "pictures"


def take(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    README_PICTURES.mkdir(exist_ok=True)
    with running() as parley, sync_playwright() as playwright:
        ada, bob, *_ = people.make(parley, 2, REGISTER)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        take_readme_pictures(browser, bob)
        wanted = list(views(ada))
        for size, (width, height) in SIZES.items():
            for page, theme in _themes(browser, ada, width, height):
                for view in wanted:
                    page.goto(view.address)
                    view.do(page)
                    page.wait_for_timeout(400)  # until transitions end
                    page.screenshot(path=folder / f"{view.name}-{size}-{theme}.png")
        browser.close()
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")


def take_readme_pictures(browser: Browser, person: Person) -> None:
    """A session with a report, and a plan's run, in both themes, as WebP."""
    for agent, words in (("travel", "Two of us to Lisbon on 3 May"), ("countdown", "Count down from 20")):
        person.begin(agent, words)
    session, _ = person.begin("report", "Make a report as Markdown", parts=[_sheet("depths.csv", CSV)])
    _, run = person.begin("research", "Find candidates against lung fibrosis")
    addresses = {"session": f"/sessions/{session}", "run": f"/plans/runs/{run}"}
    for page, theme in _themes(browser, person, 1280, 800):
        for name, address in addresses.items():
            page.goto(address)
            if name == "session":
                page.locator("#artifacts button").first.click()
            page.wait_for_timeout(1500)  # until drawings have their place
            picture = Image.open(io.BytesIO(page.screenshot()))
            picture.save(README_PICTURES / f"{name}-{theme}.webp", quality=85, method=6)


def _themes(browser: Browser, person: Person, width: int, height: int) -> Iterator[tuple[Page, str]]:
    for theme in THEMES:
        look = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
        context = browser.new_context(base_url=person.url, storage_state=person.state, **look)  # type: ignore[arg-type]
        yield context.new_page(), theme
        context.close()


def _sheet(name: str, text: str) -> dict[str, str]:
    return {"text": text, "filename": name, "mediaType": "text/csv"}


if __name__ == "__main__":
    take(Path(sys.argv[1] if len(sys.argv) > 1 else "var/screenshots"))
