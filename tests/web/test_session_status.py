"""A session's page begins as the session stands, before any script has run."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.engine import accept
from apps.features.forks.forking import fork
from apps.record.models import Context, Task
from apps.web.sessions.status import session_status
from tests.web.test_inbox import ask

pytestmark = pytest.mark.django_db(transaction=True)

STOP_IS_HIDDEN = 'class="stop" hidden'
SEND_NOW_IS_HIDDEN = 'Enter)" hidden'


def opened(browser: Client, session) -> str:
    return browser.get(f"/sessions/{session}").content.decode()


def test_a_page_begins_as_its_session_stands(ada_browser, ada, report, said, finished):
    page = opened(ada_browser, finished.context)
    assert STOP_IS_HIDDEN in page
    assert SEND_NOW_IS_HIDDEN in page
    asked = ask(ada, report)
    page = opened(ada_browser, asked.context)
    assert '<span class="word">Waiting for you</span>' in page
    assert f'placeholder="Answer {report.name}…"' in page
    assert STOP_IS_HIDDEN not in page
    assert SEND_NOW_IS_HIDDEN in page
    Task.objects.filter(pk=asked.task).update(state="auth-required", slot={"name": "key", "service": "the mail"})
    assert session_status(session_of(asked)).is_closed
    page = opened(ada_browser, accept.accept(ada.principal, report, said("first")).context)
    assert '<span class="word">Working</span>' in page
    assert STOP_IS_HIDDEN not in page
    assert SEND_NOW_IS_HIDDEN not in page


def session_of(receipt) -> Context:
    return Context.objects.select_related("agent").get(pk=receipt.context)


def test_what_a_fork_left_behind_is_not_worked_at_in_it(ada, report, said, django_assert_num_queries):
    begun = session_of(accept.accept(ada.principal, report, said("first")))
    forked = fork(ada.principal, begun, begun.last_event, reason="fork")
    with django_assert_num_queries(1):
        assert session_status(begun).sign == "working"
    forked = Context.objects.select_related("agent").get(pk=forked.pk)
    with django_assert_num_queries(2):
        assert session_status(forked).sign == ""
