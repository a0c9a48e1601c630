"""What all pages share: the service worker, how times are written, and how large scripts may be."""

import gzip
import re
import uuid
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.urls import reverse
from django.utils import timezone

from apps.record.models import Context
from apps.web.service_worker import PRECACHED
from parley.faces import clock
from parley.faces.clock import Clock

pytestmark = pytest.mark.django_db


def test_worker_is_never_cached_and_installable(client):
    answer = client.get("/sw.js")
    assert answer.headers["Content-Type"].startswith("text/javascript")
    assert ("no-store" in answer.headers["Cache-Control"], "{{" in answer.text) == (True, False)
    assert re.search(r'FILES = "files-[0-9a-f]{12}"', answer.text)
    told = client.get("/app.webmanifest")
    assert told["Content-Type"] == "application/manifest+json"
    icons = {(one["sizes"], one["purpose"]) for one in told.json()["icons"]}
    assert icons >= {("192x192", "any"), ("512x512", "maskable")}


def test_worker_keeps_pages_and_no_secrets_or_downloads(client, ada_browser):
    kept, session = pattern(client, "PAGE"), uuid.uuid4()
    for path in ("/", "/agents", "/agents/echo", "/inbox", f"/sessions/{session}", f"/tasks/{session}"):
        assert kept.search(path), path
    refused = ("/api/v1/sessions", "/admin/", "/settings/credentials", "/sign-in", f"/sessions/{session}/artifacts.zip")
    for path in (*refused, f"/sessions/{session}/messages/1/0", f"/files/{session}/abc", "/shared/token", "/token"):
        assert not kept.search(path), path
    assert [name for name in PRECACHED if not finders.find(name)] == []
    assert "ada" not in ada_browser.get("/offline").text.lower()


def test_worker_forgets_pages_where_people_change(client):
    welcome = reverse("web:welcome", args=["MQ", "set-password"])
    for path in (reverse("web:sign-in"), reverse("web:sign-out"), welcome, reverse("web:settings-delete")):
        assert pattern(client, "SIGNING").search(path), path


def pattern(client, name):
    """A pattern of the worker's script."""
    found = re.search(rf"const {name} = /(.+)/;", client.get("/sw.js").text)
    return re.compile(found[1].replace(r"\/", "/"))


AFTERNOON = datetime(2020, 9, 5, 15, 4, 9, tzinfo=UTC)


def test_clock_is_of_the_browsers_first_language():
    american, british = "Sep 5, 2020, 3:04 PM", "5 Sep 2020, 15:04"
    for languages, written in {
        ("en-US,en;q=0.9", "en"): american,
        ("en-GB", "de-AT, en-US", "*;q=nonsense", ""): british,
        ("en-AU",): "5 Sep 2020, 3:04 PM",
    }.items():
        for language in languages:
            with clock.override(clock.clock_for(language)):
                assert clock.written(AFTERNOON) == written, language
    assert (clock.written(timezone.now().replace(hour=15, minute=4)), clock.written(None)) == ("15:04", "")
    assert clock.written(AFTERNOON, "seconds") == "5 Sep, 15:04:09"
    with timezone.override("Asia/Tokyo"), clock.override(Clock(12)):
        assert clock.written(AFTERNOON, "year") == "6 Sep 2020, 12:04 AM"
        assert clock.written(AFTERNOON, "utc") == "5 Sep 2020, 15:04 UTC"


def test_page_is_written_in_its_readers_time(ada_browser, finished):
    Context.objects.filter(pk=finished.context).update(updated_at=AFTERNOON)
    ada_browser.cookies["zone"] = "Asia/Tokyo"
    for language, told, written in (("en-US", "12", "Sep 6, 2020, 12:04 AM"), ("de", "24", "6 Sep 2020, 00:04")):
        for path in ("/", "/?part=list"):
            page = ada_browser.get(path, headers={"Accept-Language": language}).text
            assert written in page
            assert path != "/" or f'data-clock="{told}"' in page


def test_no_page_or_script_formats_times_itself():
    """`|moment` in templates, `format.js` in scripts."""
    templates = [path for path in (ROOT / "templates").rglob("*.html") if "admin" not in path.parts]
    own = [path.name for path in templates if re.search(r"\|(date|time):\"", path.read_text())]
    scripts = [path for path in (ROOT / "static/js").rglob("*.js") if path.name != "format.js"]
    own += [path.name for path in scripts if re.search(r"DateTimeFormat|toLocale(Time|Date)?String", path.read_text())]
    assert len(templates) > 50
    assert own == []


ROOT = Path(__file__).resolve().parents[2]
SCRIPTS, TEMPLATES = ROOT / "static/js", ROOT / "templates"
MOST_COMPRESSED_BYTES = 60_000  # of our scripts, for a page
NAMED = re.compile(r"""(?:src|href)="\{% static '(js/[\w/.-]+)' %\}\"""")
EXTENDED = re.compile(r'\{% extends "([\w/.-]+)" %\}')
IMPORTED = re.compile(r'^(?:import|export)\b[^;"]*"(\.[^"]+)";', re.MULTILINE)


@cache
def named(template):
    """The scripts that a template and those that it extends name."""
    text = (TEMPLATES / template).read_text()
    above = [script for one in EXTENDED.findall(text) for script in named(one)]
    return frozenset([*(ROOT / "static" / name for name in NAMED.findall(text)), *above])


def imported(scripts):
    """These and all that they import at once; not what they import later, by `import()`."""
    found = set()
    due = [script.resolve() for script in scripts]
    while due:
        if (script := due.pop()) not in found:
            found.add(script)
            due += [(script.parent / name).resolve() for name in IMPORTED.findall(script.read_text())]
    return found


def compressed(files):
    return sum(len(gzip.compress(one.read_bytes())) for one in files)


def test_each_page_has_60_kilobytes_of_our_scripts():
    found = (path for path in TEMPLATES.glob("*/[!_]*.html") if path.parent.name not in ("admin", "api"))
    pages = {path.name: named(f"{path.parent.name}/{path.name}") for path in found}
    sizes = {name: compressed(imported(scripts)) for name, scripts in pages.items() if scripts}
    assert sizes.keys() >= {"home.html", "session.html", "inbox.html", "agent.html", "task.html", "plan_run.html"}
    assert SCRIPTS / "session/state.js" in imported(pages["session.html"]), "imports of imports count"
    assert {name: size for name, size in sizes.items() if not 0 < size <= MOST_COMPRESSED_BYTES} == {}


def test_menus_stand_before_their_buttons(ada_browser):
    page = ada_browser.get("/").text
    menus = set(re.findall(r'popovertarget="(.+?)"', page))
    assert "account" in menus
    assert [one for one in menus if page.index(f'id="{one}"') > page.index(f'popovertarget="{one}"')] == []
