"""People see a tool call with all its arguments, change them, and decide; also in somebody else's session."""

import uuid

import pytest
from django.core.cache import cache

from agentkit.llm import approvals
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.engine.turns import questions
from apps.engine.turns.questions import slot_of
from apps.record.content.schema_forms import answer_from, fields_of
from apps.record.execution import Run
from apps.record.models import Context, Task
from tests.clients import telling
from tests.members import operator

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = {"type": "string"}
SCHEMA = {
    "type": "object",
    "properties": {
        "to": TEXT,
        "body": TEXT,
        "count": {"type": "integer"},
        "cc": {"type": "array", "items": TEXT},
        "note": TEXT,
    },
    "required": ["to", "body"],
}
ARGUMENTS = {"to": "<b>eve</b>", "body": " two\nlines ", "count": 3, "cc": ["a"], "extra": {"x": None}}


def a_call(needs=1, **arguments):
    given = arguments or ARGUMENTS
    about = {"key": "k", "tool": "send_mail", "kind": "mcp", "needs": needs, "schema": SCHEMA, "why": ""}
    return about | {"decisions": [], "arguments": given, "proposed": given}


def ask(user, agent, call):
    slot = slot_of(approvals.question([call]))
    assert slot is not None
    return Task.objects.get(pk=telling.asked(user, agent, slot).task)


@pytest.fixture
def boss_browser(browser_of):
    return browser_of(operator("boss@example.org", "approve_task"))


def unchanged(slot):
    """A form that was not changed, as a browser sends it."""
    fields = [field for field in fields_of(slot) if field.group]
    return {field.html_name: [field.default_text.strip().replace("\n", "\r\n")] for field in fields}


def test_unchanged_form_gives_back_each_argument():
    slot = slot_of(approvals.question([a_call()]))
    assert slot is not None
    kinds = {field.name: field.kind for field in fields_of(slot) if field.group}
    text = {"to": "text", "body": "long-text", "note": "text"}
    assert kinds == text | {"count": "integer", "cc": "json", "extra": "json"}
    form = unchanged(slot) | {"answer-decision": ["approve"]}
    assert answer_from(fields_of(slot), form) == {"decision": "approve", "arguments": ARGUMENTS}
    form |= {"answer-arguments.to": ["bob"], "answer-arguments.cc": ['["b", "c"]']}
    changed = {"decision": "approve", "arguments": ARGUMENTS | {"to": "bob", "cc": ["b", "c"]}}
    assert answer_from(fields_of(slot), form) == changed
    refusal = form | {"answer-decision": ["refuse"], "answer-arguments.cc": ["no JSON"]}
    assert answer_from(fields_of(slot), refusal) == {"decision": "refuse"}


def form_of(task, decision="approve", **more):
    said = {name: value[0] for name, value in unchanged(task.slot).items()}
    return said | {"asked": str(task.status_event), "answer-decision": decision} | more


def address_of(task):
    return f"/sessions/{task.context_id}/approvals/{task.pk}"


def press(browser, task, decision="approve", **more):
    """As a page does when a person presses a button."""
    form = form_of(task, decision, **more)
    told = browser.post(f"{address_of(task)}/token", form)
    return browser.post(address_of(task), form | {"token": told.json().get("token", "")})


def test_token_is_for_one_use_and_decision(ada_browser, ada, report, browser_of):
    task, other = ask(ada, report, a_call()), ask(ada, report, a_call(to="ada", body="x"))
    form = form_of(task)
    token = token_for(ada_browser, task)
    for browser, of, said in [
        (browser_of(ada), task, form | {"token": token}),
        (ada_browser, task, form),
        (ada_browser, task, form | {"token": token}),  # it was used up
        (ada_browser, other, form_of(other, token=token)),
        (ada_browser, task, form | {"answer-arguments.to": "eve", "token": token_for(ada_browser, task)}),
        (ada_browser, task, form | {"answer-decision": "always", "token": token_for(ada_browser, task)}),
    ]:
        assert browser.post(address_of(of), said).status_code == 409
    cache.clear()  # as after a minute
    assert "&lt;b&gt;eve&lt;/b&gt;" in ada_browser.get("/inbox").text
    assert [press(ada_browser, task).status_code for _ in range(2)] == [200, 409]
    [call] = Run.objects.get(task=task, state="queued", turn=2).slot["value"]["calls"]
    assert (call["approved"], call["arguments"], call["decisions"][0]["by"]) == (True, ARGUMENTS, ada.pk)


def token_for(browser, task):
    return str(browser.post(f"{address_of(task)}/token", form_of(task)).json()["token"])


def test_page_without_scripts_asks_once_more(ada_browser, ada, report):
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


def test_words_refuse_but_do_not_approve(ada_browser, ada, report):
    task = ask(ada, report, a_call())
    _, parent = ask_through(ada, report)
    for session, said, status in [
        (task.context_id, form_of(task, answers="1") | {"task": str(task.pk)}, 409),
        (task.context_id, {"task": str(task.pk), "text": "yes"}, 409),
        (parent.context, {"task": str(parent.task), "text": "yes"}, 409),
        (task.context_id, {"task": str(task.pk), "text": "Write to Bob instead."}, 201),
    ]:
        sent = ada_browser.post(f"/sessions/{session}/messages", said | {"message": str(uuid.uuid4())})
        assert sent.status_code == status, said


def ask_through(user, agent):
    """A called agent's task that asks about a call, and its caller's, which passes the question on."""
    child = ask(user, agent, a_call())
    return child, telling.asked(user, agent, {"name": "input", "child": str(child.pk)})


def test_called_agents_call_is_decided_above(ada_browser, ada, report):
    child, parent = ask_through(ada, report)
    items = ada_browser.get(f"/sessions/{parent.context}").context["page_state"]["patch"]["put"]
    [card] = [item["form"] for item in items if "form" in item]
    assert f'data-decide="{address_of(child)}"' in card
    cards = [item.card for item in ada_browser.get("/inbox").context["items"]]
    assert {(card["task"], card["asked"]) for card in cards} == {(child.pk, child.status_event)}
    assert press(ada_browser, child).status_code == 200


def test_tool_is_allowed_for_the_session_until_revoked(ada_browser, ada, report):
    calls = [a_call() | {"key": key} for key in ("k", "l")]
    slot = slot_of(approvals.question([*calls, calls[0] | {"key": "m", "tool": "delete"}]))
    task = Task.objects.get(pk=telling.asked(ada, report, slot).task)
    assert press(ada_browser, task, "always").status_code == 200
    task.refresh_from_db()
    assert [one.get("approved") for one in task.slot["value"]["calls"]] == [True, True, None]
    address = f"/sessions/{task.context_id}/allowed-tools"
    [allowed] = ada_browser.get(address).context["tools"]
    assert allowed.tool == "mcp:send_mail"
    for tool, left in (("another", [allowed.name]), (allowed.name, [])):
        assert ada_browser.post(address, {"tool": tool}).status_code == 302
        assert questions.approved_tools(task.context_id) == left
    assert AuditEntry.objects.filter(action=AuditAction.TOOL_ALLOWANCE_REVOKED).count() == 1


def test_others_who_may_decide_see_calls_without_session(ada_browser, bob_browser, boss_browser, ada, report):
    one, two = ask(ada, report, a_call()), ask(ada, report, a_call(needs=2))
    Context.objects.filter(pk=two.context_id).update(title="A private title")
    shown = boss_browser.get("/inbox").text
    assert [words in shown for words in (str(two.pk), str(one.pk), "A private title")] == [True, False, False]
    for browser, task in ((bob_browser, two), (boss_browser, one)):
        assert browser.post(f"{address_of(task)}/token", form_of(task)).status_code == 404
    assert press(boss_browser, two).status_code == 200
    assert str(two.pk) not in boss_browser.get("/inbox").text, "somebody else must decide now"
    assert press(boss_browser, two).status_code == 409
    assert "oss" in ada_browser.get("/inbox").text, "who decided"
