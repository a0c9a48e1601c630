"""Tools run as their policies say: at once, after one or two people approved, or never."""

import asyncio
from types import SimpleNamespace

import pytest

from agentkit.llm.approvals import answer_in
from agentkit.testing import user_message
from apps.accounts.audit_models import AuditEntry
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent, ToolPolicy
from apps.agents.registration import register_hosted
from apps.conversations.sessions.commands import share_session
from apps.engine import accept, jobs
from apps.engine.turns import approvals
from apps.record.errors import AlreadyAnswered, AlreadyApproved, ApproverUnknown, InvalidParams, TaskNotFound
from apps.record.execution import Run
from apps.record.models import Context, Event
from apps.record.runs import LeaseLost
from parley import db
from tests.engine.approving import HOOKS, LOOKED, SENT
from tests.engine.delegating import carried_on, take_turn, task_of, the_record_holds, words
from tests.members import member, operator
from tests.working import begin, carry_out, let_the_lease_run_out

pytestmark = [pytest.mark.django_db(transaction=True)]

APPROVE, REFUSE = {"decision": "approve"}, {"decision": "refuse"}


@pytest.fixture
def agent(db):
    for kept in (SENT, LOOKED, HOOKS):
        kept.clear()
    for name in ("tempting", "wondering"):
        register_hosted(name, f"tests.engine.approving:{name.capitalize()}", access="public")
    return register_hosted("obedient", "tests.engine.approving:Obedient", access="public")


@pytest.fixture
def boss(db):
    return operator("boss@example.org", "approve_task")


async def policy(agent, tool, policy):
    await ToolPolicy.objects.acreate(agent=agent, tool=tool, policy=policy)


async def told(person, agent, message):
    return await take_turn(person.principal, agent, message)


@pytest.fixture
async def asked(ada, agent, said):
    """A task that asks whether it may call a tool, under this policy."""

    async def ask(how, text="send_mail bob"):
        await policy(agent, "send_mail", how)
        return await told(ada, agent, said(text))

    return ask


def answer_to(task, answer, said):
    return said(taskId=str(task.pk), parts=[{"text": answer} if isinstance(answer, str) else {"data": answer}])


async def answered(person, task, answer, said):
    return await told(person, task.agent, answer_to(task, answer, said))


async def decided_by(person, task, answer):
    """The task after an operator's decision, and after its run if that follows."""
    task = await task_of(task.pk)
    await db.run(approvals.decide, person.principal, task.pk, task.status_event, answer)
    return await carried_on(task.pk)


def shown(task):
    return task.status_message["parts"][1]["data"]


async def decisions(task):
    rows = Event.objects.filter(task=task.pk, payload__has_key="approval").order_by("index")
    return [row.payload["approval"] async for row in rows]


async def test_approved_call_runs_once_as_seen(ada, agent, asked, said):
    await told(ada, agent, said("send_mail eve"))
    assert SENT.pop() == ("eve", ""), "without a policy"
    task = await asked("ask", "send_mail bob hello\nlook here")
    assert (task.state, task.slot["name"], SENT, LOOKED) == ("input-required", "tool_approval", [], ["here"])
    about = {"tool": "send_mail", "kind": "function", "description": "Sends a mail."}
    assert shown(task) == about | {"arguments": {"to": "bob", "body": "hello"}}
    task = await answered(ada, task, APPROVE, said)
    assert (task.state, SENT, LOOKED) == ("completed", [("bob", "hello")], ["here"])
    assert words(task) == "send_mail: sent to bob | look: seen here"
    [given] = await decisions(task)
    assert (given["approved"], given["by"]) == (True, ada.pk)
    assert given["arguments"] == {"to": "bob", "body": "hello"}
    rows = Event.objects.filter(task=task.pk, type__startswith="agent_tool").order_by("index")
    assert [(row.type, row.payload["name"]) async for row in rows] == [
        (f"agent_tool_{what}", tool) for tool in ("look", "send_mail") for what in ("call", "result")
    ]
    entry = await AuditEntry.objects.aget(action="tool.approved")
    assert (entry.actor_key, entry.details["tool"]) == (str(ada.pk), "send_mail")
    assert "hello" not in str(entry.details), "arguments are content"


async def test_arguments_are_edited_within_the_schema(ada, asked, said):
    task = await asked("ask", "send_mail bob hello")
    with pytest.raises(InvalidParams) as refused:
        await answered(ada, task, APPROVE | {"arguments": {"to": 5}}, said)
    assert refused.value.field == "arguments.to"
    task = await answered(ada, task, APPROVE | {"arguments": {"to": "carl", "body": "good day"}}, said)
    assert (task.state, SENT) == ("completed", [("carl", "good day")])
    [given] = await decisions(task)
    assert (given["edited"], given["arguments"]) == (True, {"to": "carl", "body": "good day"})


@pytest.mark.parametrize(
    ("text", "decision"), [("Approve.", "approve"), ("yes", "approve"), ("yes, but later", "refuse")]
)
def test_only_plain_words_approve(text, decision):
    assert answer_in(user_message(text))["decision"] == decision


@pytest.mark.parametrize("refusal", [REFUSE | {"reason": "Not to him."}, "Not to him."], ids=["form", "words"])
async def test_refused_call_is_told_and_others_asked(ada, asked, said, refusal):
    task = await answered(ada, await asked("ask", "send_mail bob\nsend_mail carl"), refusal, said)
    assert (task.state, shown(task)["arguments"], SENT) == ("input-required", {"to": "carl"}, [])
    task = await answered(ada, task, APPROVE, said)
    assert (task.state, SENT) == ("completed", [("carl", "")])
    assert "refused this call" in words(task)
    assert "Not to him." in words(task)
    assert await AuditEntry.objects.filter(action="tool.refused").acount() == 1


async def test_session_choice_is_of_tool_session_and_person(ada, bob, agent, said):
    await policy(agent, "*", "ask")
    task = await answered(ada, await told(ada, agent, said("send_mail bob")), APPROVE | {"for_session": True}, said)
    await db.run(share_session, ada.principal, task.context_id, Context.Sharing.WORKSPACE)
    colleague = SimpleNamespace(principal=await db.run(member, bob, ada))
    session = {"contextId": str(task.context_id)}

    async def state(person, text, **where):
        return (await told(person, agent, said(text, **where))).state

    assert await state(ada, "send_mail carl", **session) == "completed"
    assert await state(ada, "look here", **session) == "input-required"
    assert await state(ada, "send_mail dan") == "input-required"
    his = await told(colleague, agent, said("send_mail dan", **session))
    assert (his.owner_id, his.context_id, his.state) == (bob.pk, task.context_id, "input-required")
    await ToolPolicy.objects.filter(agent=agent).aupdate(policy="ask_two")
    assert await state(ada, "send_mail eve", **session) == "input-required"
    assert len(SENT) == 2


async def test_two_different_people_must_approve(ada, bob, boss, asked, said):
    task = await answered(ada, await asked("ask_two"), APPROVE, said)
    assert (task.state, SENT, shown(task)["approvedBy"]) == ("input-required", [], ["Ada"])
    with pytest.raises(AlreadyApproved):
        await answered(ada, task, APPROVE, said)
    with pytest.raises(TaskNotFound):
        await decided_by(bob, task, APPROVE)
    with pytest.raises(AlreadyAnswered):
        await db.run(approvals.decide, boss.principal, task.pk, task.status_event - 1, APPROVE)
    assert (await decided_by(boss, task, APPROVE)).state == "completed"
    assert SENT == [("bob", "")]
    assert [one["by"] for one in await decisions(task)] == [ada.pk, boss.pk]
    await the_record_holds()


async def test_editor_of_approved_call_approves_first(ada, boss, asked, said):
    task = await answered(ada, await asked("ask_two"), APPROVE, said)
    task = await decided_by(boss, task, APPROVE | {"arguments": {"to": "eve"}})
    assert (task.state, SENT) == ("input-required", [])
    task = await answered(ada, task, APPROVE, said)
    assert (task.state, SENT) == ("completed", [("eve", "")])


async def test_operators_decide_only_what_needs_two(boss, asked):
    task = await asked("ask")
    with pytest.raises(TaskNotFound):
        await decided_by(boss, task, APPROVE)
    await ToolPolicy.objects.all().adelete()
    assert (await decided_by(boss, await asked("ask_two"), REFUSE)).state == "completed", "one refusal is enough"
    assert SENT == []


async def test_unknown_caller_needs_an_operator(boss, agent, said):
    anonymous = SimpleNamespace(principal=ANONYMOUS)
    await policy(agent, "send_mail", "ask")
    task = await told(anonymous, agent, said("send_mail bob"))
    with pytest.raises(ApproverUnknown):
        await answered(anonymous, task, APPROVE, said)
    assert ((await decided_by(boss, task, APPROVE)).state, SENT) == ("completed", [("bob", "")])


@pytest.mark.parametrize(("stricter", "state"), [("never", "completed"), ("ask_two", "input-required")])
async def test_stricter_policy_overrules_an_approval(ada, asked, said, stricter, state):
    task = await asked("ask")
    await ToolPolicy.objects.aupdate(policy=stricter)
    task = await answered(ada, task, APPROVE, said)
    assert (task.state, SENT) == (state, [])
    assert stricter == "never" or task.slot["approvers"] == 2


@pytest.mark.parametrize("called", ["send_mail bob", "middle: obedient: send_mail bob"])
async def test_early_message_approves_nothing(called, ada, agent, said):
    await policy(agent, "send_mail", "ask")
    for slug in ("middle", "caller"):
        caller = await db.run(register_hosted, slug, "tests.engine.calling_agents:Caller", access="public")
    asked = caller if ":" in called else agent
    receipt = await db.run(accept.accept, ada.principal, asked, said(called))
    await db.run(accept.accept, ada.principal, asked, said("yes", taskId=str(receipt.task)))
    await with_children(receipt.run)
    await with_children((await Run.objects.aget(task=receipt.task, state="queued")).pk)
    task = await task_of(receipt.task)
    assert (task.state, SENT) == ("completed", [])
    assert "wrote meanwhile: yes" in words(task)


async def test_begun_call_is_not_made_again(ada, agent, asked, said):
    await Agent.objects.filter(pk=agent.pk).aupdate(retry_safe=True)
    task = await asked("ask")
    receipt = await db.run(accept.accept, ada.principal, agent, answer_to(task, APPROVE, said))
    first = await db.run(begin, receipt.run)
    calls = approvals.TurnApprovals(first, approvals.Recorder(first))
    assert await calls.begin(next(iter(first.decisions)), "send_mail", {"to": "bob"}) is None
    SENT.append(("bob", ""))  # the worker dies here: nobody recorded the result
    await db.run(let_the_lease_run_out, first.lease)
    await carry_out(receipt.run)
    task = await task_of(task.pk)
    assert (task.state, SENT) == ("completed", [("bob", "")])
    assert "interrupted" in words(task)


async def test_approval_outlives_a_killed_worker(ada, agent, asked, said):
    task = await asked("ask")
    receipt = await db.run(accept.accept, ada.principal, agent, answer_to(task, APPROVE, said))
    late = await db.run(begin, receipt.run)  # the worker dies before the call
    await db.run(let_the_lease_run_out, late.lease)
    await carry_out(receipt.run)
    calls = approvals.TurnApprovals(late, approvals.Recorder(late))
    with pytest.raises(LeaseLost):
        await calls.begin("another", "send_mail", {"to": "bob"})
    assert ((await task_of(task.pk)).state, SENT) == ("completed", [("bob", "")])
    await the_record_holds()


async def test_question_of_another_agent_repeats_no_call(ada, agent, said):
    await policy(agent, "*", "ask")
    await policy(agent, "agent:*", "ask")
    task = await answered(ada, await told(ada, agent, said("send_mail bob\nask_wondering now")), APPROVE, said)
    for answer, state, expected in ((APPROVE, "input-required", "Which one?"), ("one", "completed", "That one.")):
        receipt = await db.run(accept.accept, ada.principal, agent, answer_to(task, answer, said))
        await with_children(receipt.run)
        task = await task_of(task.pk)
        assert (task.state, expected in words(task), len(SENT)) == (state, True, 1)
    await the_record_holds()


async def with_children(run):
    turn, begun = asyncio.ensure_future(carry_out(run)), {}
    while not (turn.done() and all(one.done() for one in begun.values())):
        for row in await db.run(list, Run.objects.filter(task__parent__isnull=False, state="queued")):
            if row.pk not in begun:
                begun[row.pk] = asyncio.ensure_future(carry_out(row.pk))
        await asyncio.sleep(0.01)
    await asyncio.gather(turn, *begun.values())
    await db.run(jobs.sweep)
