"""The inbox shows a person's open questions, and its forms answer them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import accept, cancel
from apps.features.sessions import commands
from apps.record.lookup import waiting_tasks
from apps.record.models import Context, Task
from tests.web import telling

pytestmark = pytest.mark.django_db

NESTED = {"type": "object", "properties": {"home": {"type": "object", "properties": {"street": {"type": "string"}}}}}


def ask(user: User, agent: Agent, schema: object = telling.FORMAT):
    return telling.asked(user, agent, {"name": "format", "schema": schema})


def test_questions_of_all_sessions_are_there_the_newest_first(ada_browser: Client, ada: User, report: Agent) -> None:
    first, second = ask(ada, report), ask(ada, report)
    shown = ada_browser.get("/inbox").text
    assert shown.index(str(second.task)) < shown.index(str(first.task))
    for asked in (first, second):
        assert f'action="/sessions/{asked.context}/messages"' in shown
        index = Task.objects.get(pk=asked.task).status_event
        assert f'href="/sessions/{asked.context}#m-{index}"' in shown
    assert 'name="answer-format"' in shown
    assert "Decline" in shown
    items = ada_browser.get("/inbox/items").text
    assert "<html" not in items
    assert str(first.task) in items


def test_payment_is_shown_without_a_form(ada_browser: Client, ada: User, report: Agent) -> None:
    telling.asked(ada, report, {"name": "payment", "payment": {"maxAmountRequired": "10000", "payTo": "0x<b>"}})
    shown = ada_browser.get("/inbox").text
    assert "10000" in shown
    assert "0x&lt;b&gt;" in shown
    assert 'name="text"' not in shown


def test_times_are_in_the_zone_of_the_reader_when_the_list_is_read_again_too(
    ada_browser: Client, ada: User, report: Agent
) -> None:
    asked = ask(ada, report)
    Task.objects.filter(pk=asked.task).update(status_at=datetime(2026, 5, 31, 20, 0, tzinfo=UTC))
    ada_browser.cookies["zone"] = "Asia/Tokyo"
    for path in ("/inbox", "/inbox/items"):
        assert "1 Jun, 05:00" in ada_browser.get(path).text, path


def test_a_question_without_a_form_is_answered_in_words_and_a_credential_given_on_its_page(
    ada_browser: Client, ada: User, report: Agent
) -> None:
    asked = ask(ada, report, NESTED)
    shown = ada_browser.get("/inbox").text
    assert 'name="text"' in shown
    assert "Street" in shown
    metadata = {"url": "http://localhost/credentials/abc"}
    message = {"parts": [{"text": "I need a key."}, {"text": "link"}], "metadata": metadata}
    wanted = {"state": "auth-required", "slot": {"name": "key", "service": "the mail"}, "status_message": message}
    Task.objects.filter(pk=asked.task).update(**wanted)
    shown = ada_browser.get("/inbox").text
    assert 'href="/credentials/abc"' in shown
    assert 'name="text"' not in shown


def test_what_is_answered_put_away_or_somebody_elses_is_not_there(
    ada_browser: Client, bob_browser: Client, ada: User, bob: User, report: Agent, said, client: Client
) -> None:
    answered, away, kept, of_a_child, other = (ask(ada, report) for _ in range(5))
    context = Context.objects.get(pk=answered.context).context_id
    accept.accept(ada.principal, report, said("PDF", taskId=str(answered.task), contextId=context))
    commands.archive_session(ada.principal, away.context)
    Context.objects.filter(pk=of_a_child.context).update(parent_task=kept.task)
    Task.objects.filter(pk=of_a_child.task).update(parent=kept.task)
    cancel.cancel_task(Task.objects.get(pk=other.task))
    assert [task.pk for task in waiting_tasks(ada.principal)] == [kept.task]
    shown = ada_browser.get("/inbox").text
    assert [str(one.task) in shown for one in (answered, away, kept, of_a_child, other)] == [0, 0, 1, 0, 0]
    assert 'data-waiting="1"' in shown
    assert str(kept.task) not in bob_browser.get("/inbox").text
    assert waiting_tasks(bob.principal).count() == 0
    for path in ("/inbox", "/inbox/items"):
        assert client.get(path).status_code == 302


def test_what_an_agent_asks_is_text(ada_browser: Client, ada: User, report: Agent) -> None:
    asked = ask(ada, report)
    evil = {"parts": [{"text": "<script>alert(1)</script> **bold** ![x](http://evil.example/x.png)"}]}
    Task.objects.filter(pk=asked.task).update(status_message=evil, status_at=timezone.now() - timedelta(days=1))
    shown = ada_browser.get("/inbox/items").text
    assert "<script>alert" not in shown
    assert "<strong>bold</strong>" in shown
    assert "<img" not in shown


def test_many_questions_take_as_many_queries_as_one(
    ada_browser: Client, ada: User, report: Agent, django_assert_max_num_queries
) -> None:
    counts = []
    for number in (1, 9):
        for _ in range(number):
            ask(ada, report)
        with django_assert_max_num_queries(20) as made:
            ada_browser.get("/inbox/items")
        counts.append(len(made))
    assert counts[0] == counts[1]
