"""A session's page begins as the session stands, before any script has run."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.conversations import intake
from apps.conversations.forking import fork
from apps.conversations.models import Context, Task
from apps.web.standing import standing_of
from tests.web import telling
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


def session_of(receipt) -> Context:
    return Context.objects.select_related("agent").get(pk=receipt.context)


def test_where_a_credential_is_asked_for_nothing_can_be_written(ada_browser, ada, report):
    asked = ask(ada, report)
    Task.objects.filter(pk=asked.task).update(state="auth-required", slot={"name": "key", "service": "the mail"})
    assert standing_of(session_of(asked)).is_shut
    page = opened(ada_browser, asked.context)
    assert 'placeholder="Use the button above" dir="auto" disabled' in page


def test_who_asks_is_named_also_where_another_stood_in(ada, report, echo):
    asked = telling.begun(ada, report)
    with telling.ledger.writing(asked.context) as log:
        telling.work(log, asked)
        telling.status(log, asked, "input-required", "Which?", agent=echo.pk)
    assert standing_of(session_of(asked)).placeholder == f"Answer {echo.name}…"


def test_a_question_of_another_agent_is_not_answered_by_what_is_written_here(ada, report, echo):
    asked = ask(ada, report)
    Context.objects.filter(pk=asked.context).update(agent=echo)
    stands = standing_of(session_of(asked))
    assert (stands.look, stands.placeholder) == ("waiting", f"Message {echo.name}…")


def test_what_a_fork_left_behind_is_not_worked_at_in_it(ada, report, said, django_assert_num_queries):
    begun = session_of(intake.accept(ada.principal, report, said("first")))
    forked = fork(ada.principal, begun, begun.last_event, reason="fork")
    with django_assert_num_queries(1):
        assert standing_of(begun).look == "working"
    forked = Context.objects.select_related("agent").get(pk=forked.pk)
    with django_assert_num_queries(2):
        assert standing_of(forked).look == ""


def test_how_a_session_stands_that_waits_costs_two_queries(ada, report, django_assert_num_queries):
    asked = session_of(ask(ada, report))
    with django_assert_num_queries(2):
        assert standing_of(asked).look == "waiting"
