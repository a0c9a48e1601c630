"""People see a tool call with all its arguments, change them, and decide; also in somebody else's session."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from agentkit.llm import approvals
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine.questions import slot_of
from apps.record.execution import Run
from apps.record.models import Task
from apps.web.questions import answer_from, fields_of
from tests.web import telling

pytestmark = pytest.mark.django_db(transaction=True)

SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "body": {"type": "string"},
        "count": {"type": "integer"},
        "cc": {"type": "array", "items": {"type": "string"}},
        "note": {"type": "string"},
    },
    "required": ["to", "body"],
}
ARGUMENTS = {"to": "<b>eve</b>", "body": " two\nlines ", "count": 3, "cc": ["a"], "extra": {"x": None}}


def a_call(needs: int = 1, **arguments: Any) -> dict[str, Any]:
    given = arguments or ARGUMENTS
    about = {
        "key": "k",
        "tool": "send_mail",
        "kind": "mcp",
        "needs": needs,
        "schema": SCHEMA,
        "why": "",
        "decisions": [],
    }
    return about | {"arguments": given, "proposed": given}


def ask(user: User, agent: Agent, call: dict[str, Any]) -> Task:
    slot = slot_of(approvals.question([call]))
    assert slot is not None
    return Task.objects.get(pk=telling.asked(user, agent, slot).task)


@pytest.fixture
def boss(db: None) -> User:
    return User.objects.create_user("boss@example.org", "a long password", is_staff=True)


@pytest.fixture
def boss_browser(boss: User) -> Client:
    browser = Client()
    browser.force_login(boss)
    return browser


def unchanged(slot: dict[str, Any]) -> dict[str, list[str]]:
    """A form that was not changed, as a browser sends it."""
    fields = [field for field in fields_of(slot) if field.group]
    return {field.html_name: [field.default_text.strip().replace("\n", "\r\n")] for field in fields}


def test_the_form_has_each_argument_and_gives_it_back_as_it_was() -> None:
    slot = slot_of(approvals.question([a_call()]))
    assert slot is not None
    kinds = {field.name: field.kind for field in fields_of(slot) if field.group}
    assert kinds == {
        "to": "text", "body": "long-text", "count": "integer", "cc": "json", "extra": "json", "note": "text",
    }  # fmt: skip
    form = unchanged(slot) | {"answer-decision": ["approve"]}
    assert answer_from(fields_of(slot), form) == {"decision": "approve", "arguments": ARGUMENTS}
    form |= {"answer-arguments.to": ["bob"], "answer-arguments.cc": ['["b", "c"]']}
    given = answer_from(fields_of(slot), form)
    assert given is not None
    assert given["arguments"] == ARGUMENTS | {"to": "bob", "cc": ["b", "c"]}
    refusal = form | {"answer-decision": ["refuse"], "answer-arguments.cc": ["no JSON"]}
    assert answer_from(fields_of(slot), refusal) == {"decision": "refuse"}


def test_the_inbox_shows_strings_as_data_and_takes_the_decision(ada_browser: Client, ada: User, report: Agent) -> None:
    task = ask(ada, report, a_call())
    shown = ada_browser.get("/inbox").text
    assert "<b>eve</b>" not in shown
    assert "&lt;b&gt;eve&lt;/b&gt;" in shown
    said = {name: value[0] for name, value in unchanged(task.slot).items()}
    said |= {"answers": "1", "task": str(task.pk), "asked": str(task.status_event), "message": str(uuid.uuid4())}
    answer = ada_browser.post(f"/sessions/{task.context_id}/messages", said | {"answer-decision": "approve"})
    assert answer.status_code == 201, answer.text
    run = Run.objects.get(task=task, state="queued", turn=2)
    [call] = run.slot["value"]["calls"]
    assert (call["approved"], call["arguments"], call["decisions"][0]["by"]) == (True, ARGUMENTS, ada.pk)


def test_what_would_be_invisible_is_written_out() -> None:
    question = approvals.question([a_call(to="ev\u202ee\u200b")])
    assert question.parts[1]["data"]["arguments"]["to"] == "ev\\u202ee\\u200b"


def test_a_call_that_needs_two_is_in_the_inbox_of_others_who_may_decide_without_the_session(
    ada_browser: Client, bob_browser: Client, boss_browser: Client, boss: User, ada: User, report: Agent
) -> None:
    one, two = ask(ada, report, a_call()), ask(ada, report, a_call(needs=2))
    Task.objects.get(pk=two.pk).context.__class__.objects.filter(pk=two.context_id).update(title="A private title")
    shown = boss_browser.get("/inbox").text
    assert str(two.pk) in shown
    assert str(one.pk) not in shown
    assert "A private title" not in shown
    assert str(two.pk) not in bob_browser.get("/inbox").text
    address = f"/sessions/{two.context_id}/approvals/{two.pk}"
    said = {"asked": str(two.status_event), "answer-decision": "approve", "message": str(uuid.uuid4())}
    said |= {name: value[0] for name, value in unchanged(two.slot).items()}
    assert bob_browser.post(address, said).status_code == 404
    assert boss_browser.post(f"/sessions/{one.context_id}/approvals/{one.pk}", said).status_code == 404
    assert boss_browser.post(address, said).status_code == 200
    assert str(two.pk) not in boss_browser.get("/inbox").text, "somebody else must decide now"
    assert boss_browser.post(address, said).status_code == 409
    assert "Boss" in ada_browser.get("/inbox").text or "boss" in ada_browser.get("/inbox").text
