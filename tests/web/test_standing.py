"""A session's page begins as the session stands, before any script has run."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.conversations import intake
from tests.web.test_inbox import ask

pytestmark = pytest.mark.django_db(transaction=True)

STOP_IS_HIDDEN = 'class="stop" hidden'
SEND_NOW_IS_HIDDEN = 'Enter)" hidden'


def opened(browser: Client, session) -> str:
    return browser.get(f"/sessions/{session}").content.decode()


def test_a_session_that_is_worked_at_says_so_and_can_be_stopped(ada_browser, ada, report, said):
    page = opened(ada_browser, intake.accept(ada.principal, report, said("first")).context)
    assert '<span class="word">Working</span>' in page
    assert "What you send waits until this is done" in page
    assert 'title="Send when the work is done"' in page
    assert STOP_IS_HIDDEN not in page
    assert SEND_NOW_IS_HIDDEN not in page


def test_a_session_that_asks_waits_for_an_answer(ada_browser, ada, report):
    page = opened(ada_browser, ask(ada, report).context)
    assert '<span class="word">Waiting for you</span>' in page
    assert f'placeholder="Answer {report.name}…"' in page
    assert 'title="Send"' in page
    assert STOP_IS_HIDDEN not in page
    assert SEND_NOW_IS_HIDDEN in page


def test_a_session_in_which_nothing_happens_says_nothing(ada_browser, finished):
    page = opened(ada_browser, finished.context)
    assert 'id="head-state"></span>' in page
    assert STOP_IS_HIDDEN in page
    assert SEND_NOW_IS_HIDDEN in page
    assert "What you send waits" not in page
