"""All pages write times alike: in the reader's time zone, by their clock. Scripts follow the same rules."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.engine.accept import Receipt
from apps.features.sharing import shares
from apps.record.models import Context
from console import clock
from console.clock import Clock

ROOT = Path(__file__).resolve().parents[2]
AFTERNOON = datetime(2020, 9, 5, 15, 4, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("language", "written"),
    [
        ("en-US,en;q=0.9", "Sep 5, 2020, 3:04 PM"),
        ("en", "Sep 5, 2020, 3:04 PM"),
        ("en-GB", "5 Sep 2020, 15:04"),
        ("de-AT, en-US", "5 Sep 2020, 15:04"),
        ("en-AU", "5 Sep 2020, 3:04 PM"),
        ("fr-CA", "Sep 5, 2020, 15:04"),
        ("zh-Hant-TW", "5 Sep 2020, 3:04 PM"),
        ("*;q=nonsense", "5 Sep 2020, 15:04"),
        ("", "5 Sep 2020, 15:04"),
    ],
)
def test_the_clock_is_that_of_the_browsers_first_language(language: str, written: str) -> None:
    with clock.override(clock.clock_for(language)):
        assert clock.written(AFTERNOON) == written


def test_a_time_says_as_much_as_is_needed() -> None:
    now = timezone.now().replace(hour=15, minute=4)
    assert clock.written(now) == "15:04"
    assert clock.written(AFTERNOON, "seconds") == "5 Sep, 15:04:09"
    assert clock.written(None) == ""
    with timezone.override("Asia/Tokyo"), clock.override(Clock(12)):
        assert clock.written(AFTERNOON, "year") == "6 Sep 2020, 12:04 AM"
        assert clock.written(AFTERNOON, "utc") == "5 Sep 2020, 15:04 UTC"


def test_a_page_is_written_for_its_reader_and_tells_its_scripts_how(ada_browser: Client, finished: Receipt) -> None:
    Context.objects.filter(pk=finished.context).update(updated_at=AFTERNOON)
    ada_browser.cookies["zone"] = "Asia/Tokyo"
    for language, told, written in (("en-US", "12", "Sep 6, 2020, 12:04 AM"), ("de", "24", "6 Sep 2020, 00:04")):
        for path in ("/", "/?part=list"):
            page = ada_browser.get(path, headers={"Accept-Language": language}).text
            assert written in page
            assert path != "/" or f'data-clock="{told}"' in page


@pytest.mark.django_db(transaction=True)
def test_a_shared_page_says_that_its_times_are_utc(ada: User, client: Client, finished: Receipt) -> None:
    _, token = shares.create_share(ada.principal, finished.context, lifetime=timedelta(days=7))
    page = client.get(f"/shared/{token}", headers={"Accept-Language": "en-US"}).text
    times = re.findall(r"<time[^>]*>([^<]*\d:\d\d[^<]*)</time>", page)
    assert times
    assert [time for time in times if not time.endswith(" UTC")] == []


def test_no_page_and_no_script_has_a_format_of_its_own() -> None:
    """`|moment` in templates, `format.js` in scripts."""
    templates = [path for part in ("web", "plans", "remote") for path in (ROOT / "templates" / part).rglob("*.html")]
    own = [path.name for path in templates if re.search(r"\|(date|time):\"", path.read_text())]
    scripts = [path for path in (ROOT / "static/js").rglob("*.js") if path.name != "format.js"]
    own += [path.name for path in scripts if re.search(r"DateTimeFormat|toLocale(Time|Date)?String", path.read_text())]
    assert len(templates) > 50
    assert own == []
