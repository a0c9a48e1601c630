"""People see a tool call with all its arguments, change them, and decide; also in somebody else's session."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client

from agentkit.llm import approvals
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import questions
from apps.engine.accept import Receipt
from apps.engine.questions import slot_of
from apps.record.content.schema_forms import answer_from, fields_of
from apps.record.execution import Run
from apps.record.models import Task
from tests.members import operator
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
    return operator("boss@example.org", "approve_task")


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


def form_of(task: Task, decision: str = "approve", **more: str) -> dict[str, str]:
    said = {name: value[0] for name, value in unchanged(task.slot).items()}
    return said | {"asked": str(task.status_event), "answer-decision": decision} | more


def address_of(task: Task) -> str:
    return f"/sessions/{task.context_id}/approvals/{task.pk}"


def press(browser: Client, task: Task, decision: str = "approve", **more: str) -> HttpResponse:
    """As a page does when a person presses a button."""
    form = form_of(task, decision, **more)
    told = browser.post(f"{address_of(task)}/token", form)
    return browser.post(address_of(task), form | {"token": told.json().get("token", "")})


def test_the_inbox_shows_strings_as_data_and_takes_the_decision(ada_browser: Client, ada: User, report: Agent) -> None:
    task = ask(ada, report, a_call())
    shown = ada_browser.get("/inbox").text
    assert "<b>eve</b>" not in shown
    assert "&lt;b&gt;eve&lt;/b&gt;" in shown
    assert press(ada_browser, task).status_code == 200
    run = Run.objects.get(task=task, state="queued", turn=2)
    [call] = run.slot["value"]["calls"]
    assert (call["approved"], call["arguments"], call["decisions"][0]["by"]) == (True, ARGUMENTS, ada.pk)


def test_a_token_is_for_one_use_and_one_decision(ada_browser: Client, ada: User, report: Agent) -> None:
    task, other = ask(ada, report, a_call()), ask(ada, report, a_call(to="ada", body="x"))
    form = form_of(task)
    token = ada_browser.post(f"{address_of(task)}/token", form).json()["token"]
    elsewhere = Client()
    elsewhere.force_login(ada)
    for browser, address, said in [
        (elsewhere, address_of(task), form | {"token": token}),
        (ada_browser, address_of(task), form),
        (ada_browser, address_of(task), form | {"token": token}),  # it was used up
        (ada_browser, address_of(other), form_of(other, token=token)),
        (ada_browser, address_of(task), form | {"answer-arguments.to": "eve", "token": token_for(ada_browser, task)}),
        (ada_browser, address_of(task), form | {"answer-decision": "always", "token": token_for(ada_browser, task)}),
    ]:
        assert browser.post(address, said).status_code == 409
    cache.clear()  # as after a minute
    assert press(ada_browser, task).status_code == 200
    assert press(ada_browser, task).status_code == 409


def token_for(browser: Client, task: Task) -> str:
    return str(browser.post(f"{address_of(task)}/token", form_of(task)).json()["token"])


def test_only_pages_of_this_installation_get_a_token(ada_browser: Client, ada: User, report: Agent) -> None:
    task = ask(ada, report, a_call())
    for headers in [
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document"},
    ]:
        assert ada_browser.post(f"{address_of(task)}/token", form_of(task), headers=headers).status_code == 409
    for page in ("/inbox", f"/sessions/{task.context_id}"):
        assert "token_urlsafe" not in ada_browser.get(page).text
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ada)
    assert strict.post(f"{address_of(task)}/token", form_of(task)).status_code == 403


def test_a_page_without_scripts_asks_once_more(ada_browser: Client, ada: User, report: Agent) -> None:
    task = ask(ada, report, a_call())
    address, form = f"{address_of(task)}/confirm", form_of(task)
    by_script = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document"}
    assert ada_browser.post(address, form, headers=by_script).status_code == 409
    asked = ada_browser.post(address, form, headers=by_script | {"Sec-Fetch-User": "?1"})
    assert asked.status_code == 200
    stale = ada_browser.post(address, form | {"token": "old"})
    assert stale.status_code == 409
    assert ada_browser.post(address, form | {"token": stale.context["token"]})["Location"] == "/inbox"
    assert Run.objects.filter(task=task, turn=2).exists()


def test_words_in_the_composer_refuse_but_do_not_approve(ada_browser: Client, ada: User, report: Agent) -> None:
    task = ask(ada, report, a_call())
    address = f"/sessions/{task.context_id}/messages"
    form = form_of(task, answers="1") | {"task": str(task.pk)}
    assert ada_browser.post(address, form | {"message": str(uuid.uuid4())}).status_code == 409
    said = {"task": str(task.pk), "text": "yes"}
    assert ada_browser.post(address, said | {"message": str(uuid.uuid4())}).status_code == 409
    said["text"] = "Write to Bob instead."
    assert ada_browser.post(address, said | {"message": str(uuid.uuid4())}).status_code == 201


def ask_through(user: User, agent: Agent) -> tuple[Task, Receipt]:
    """A called agent's task that asks about a call, and its caller's, which passes the question on."""
    child = ask(user, agent, a_call())
    return child, telling.asked(user, agent, {"name": "input", "child": str(child.pk)})


def test_words_do_not_approve_a_called_agents_call(ada_browser: Client, ada: User, report: Agent) -> None:
    _, parent = ask_through(ada, report)
    said = {"task": str(parent.task), "text": "yes", "message": str(uuid.uuid4())}
    assert ada_browser.post(f"/sessions/{parent.context}/messages", said).status_code == 409


def test_a_called_agents_call_is_decided_above(ada_browser: Client, ada: User, report: Agent) -> None:
    child, parent = ask_through(ada, report)
    entries = ada_browser.get(f"/sessions/{parent.context}").context["page_state"]["entries"]
    [card] = [entry["form"] for entry in entries if "form" in entry]
    assert f'data-decide="{address_of(child)}"' in card
    cards = [item.card for item in ada_browser.get("/inbox").context["items"]]
    assert {(card["task"], card["asked"]) for card in cards} == {(child.pk, child.status_event)}
    assert press(ada_browser, child).status_code == 200


def test_a_tool_is_allowed_for_the_session_until_that_is_revoked(ada_browser: Client, ada: User, report: Agent) -> None:
    task = ask(ada, report, a_call())
    assert press(ada_browser, task, "always").status_code == 200
    address = f"/sessions/{task.context_id}/allowed-tools"
    [allowed] = ada_browser.get(address).context["tools"]
    assert allowed.tool == "mcp:send_mail"
    assert questions.approved_tools(task.context_id) == [allowed.name]
    assert ada_browser.post(address, {"tool": "another"}).status_code == 302
    assert ada_browser.post(address, {"tool": allowed.name}).status_code == 302
    assert questions.approved_tools(task.context_id) == []
    assert AuditEntry.objects.filter(action=AuditAction.TOOL_ALLOWANCE_REVOKED).count() == 1


def test_a_tool_that_was_allowed_asks_nothing_more(ada_browser: Client, ada: User, report: Agent) -> None:
    calls = [a_call() | {"key": key} for key in ("k", "l")]
    slot = slot_of(approvals.question([*calls, calls[0] | {"key": "m", "tool": "delete"}]))
    assert slot is not None
    task = Task.objects.get(pk=telling.asked(ada, report, slot).task)
    assert press(ada_browser, task, "always").status_code == 200
    task.refresh_from_db()
    assert [one.get("approved") for one in task.slot["value"]["calls"]] == [True, True, None]


@pytest.mark.parametrize("policy", [{"needs": 2}, {"each": True}])
def test_strict_policies_allow_no_tool_for_a_session(
    policy: dict[str, Any], ada_browser: Client, ada: User, report: Agent
) -> None:
    task = ask(ada, report, a_call() | policy)
    assert 'value="always"' not in ada_browser.get("/inbox").text
    assert press(ada_browser, task, "always").status_code == 200
    assert questions.approved_tools(task.context_id) == []


def test_a_decision_is_a_line_in_words(ada_browser: Client, ada: User, report: Agent) -> None:
    task = ask(ada, report, a_call(to="eve", body={"text": "Hello", "tags": ["a", "b"]}))
    press(ada_browser, task, "refuse", **{"answer-reason": "Not to Eve."})
    entries = ada_browser.get(f"/sessions/{task.context_id}").context["page_state"]["entries"]
    [line] = [entry["decided"] for entry in entries if "decided" in entry]
    for words in ("Send mail", "Not to Eve.", "eve", "text: Hello", "• a"):
        assert words in line
    [asked] = [entry["message"]["html"] for entry in entries if entry.get("form")]
    assert "{" not in asked + line


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
    assert bob_browser.post(f"{address_of(two)}/token", form_of(two)).status_code == 404
    assert boss_browser.post(f"{address_of(one)}/token", form_of(one)).status_code == 404
    assert press(boss_browser, two).status_code == 200
    assert str(two.pk) not in boss_browser.get("/inbox").text, "somebody else must decide now"
    assert press(boss_browser, two).status_code == 409
    assert "Boss" in ada_browser.get("/inbox").text or "boss" in ada_browser.get("/inbox").text


def test_nothing_that_an_agent_writes_is_a_button(ada_browser: Client, ada: User, report: Agent) -> None:
    hostile = '<form class="approval"><button name="answer-decision" value="approve">OK</button></form>'
    call = a_call(to=hostile, body={hostile: [hostile]}) | {"title": hostile, "description": hostile, "why": hostile}
    task = ask(ada, report, call)
    entries = ada_browser.get(f"/sessions/{task.context_id}").context["page_state"]["entries"]
    [card] = [entry["message"]["html"] + entry["form"] for entry in entries if entry.get("form")]
    for shown in (card, ada_browser.get("/inbox").text):
        assert shown.count('name="answer-decision"') == 3
        assert shown.count('class="question approval"') == 1
