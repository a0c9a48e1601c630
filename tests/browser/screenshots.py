"""Pictures of the main pages at every size and in both themes (`make screenshots`).

It starts its own Parley and fills it with people and messages.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django
from playwright.sync_api import sync_playwright

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()  # before the imports that need models

from tests.browser import people  # noqa: E402
from tests.browser.conftest import register  # noqa: E402
from tests.browser.views import views  # noqa: E402
from tests.chromium import CHROMIUM  # noqa: E402
from tests.stack import running  # noqa: E402

SIZES = {"wide": (1440, 900), "medium": (768, 1024), "phone": (390, 844)}
THEMES = ("light", "dark")


def take(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with running() as parley, sync_playwright() as playwright:
        register(parley)
        ada, *_ = people.make(parley, 1)
        wanted = list(views(ada))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for size, (width, height) in SIZES.items():
            for theme in THEMES:
                look = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
                context = browser.new_context(base_url=parley.url, storage_state=ada.state, **look)  # type: ignore[arg-type]
                page = context.new_page()
                for view in wanted:
                    page.goto(view.address)
                    view.do(page)
                    page.wait_for_timeout(400)  # until transitions end
                    page.screenshot(path=folder / f"{view.name}-{size}-{theme}.png")
                context.close()
        browser.close()
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")


if __name__ == "__main__":
    take(Path(sys.argv[1] if len(sys.argv) > 1 else "var/screenshots"))
