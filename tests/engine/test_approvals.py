"""Tools run as their policies say: at once, after one or two people approved, or never."""

import asyncio
from types import SimpleNamespace

import pytest

import db
from agentkit.llm.approvals import answer_in
from agentkit.testing import user_message
from apps.accounts.audit_models import AuditEntry
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent, ToolPolicy
from apps.agents.registration import register_hosted
from apps.engine import accept, approvals, jobs
from apps.features.sessions.commands import share_session
from apps.record import projection
from apps.record.errors import AlreadyAnswered, AlreadyApproved, ApproverUnknown, InvalidParams, TaskNotFound
from apps.record.execution import Run
from apps.record.models import Context, Event, Task
from apps.record.runs import LeaseLost
from tests.engine.approving import HOOKS, LOOKED, SENT
from tests.members import member, operator
from tests.working import begin, carry_out, let_the_lease_run_out

pytestmark = [pytest.mark.django_db(transaction=True)]

APPROVE, REFUSE = {"decision": "approve"}, {"decision": "refuse"}


@pytest.fixture
def agent(db):
    for kept in (SENT, LOOKED, HOOKS):
        kept.clear()
    made = [register_hosted(name.lower(), f"tests.engine.approving:{name}") for name in ("Tempting", "Wondering")]
    Agent.objects.filter(pk__in=[one.pk for one in made]).update(access="public")
    return register_hosted("obedient", "tests.engine.approving:Obedient", access="public")


class Anonymous:
    principal = ANONYMOUS


@pytest.fixture
def boss(db):
    return operator("boss@example.org", "approve_task")


def policy(agent, tool, policy):
    ToolPolicy.objects.create(agent=agent, tool=tool, policy=policy)


def task_of(key):
    return Task.objects.select_related("context", "agent").get(pk=key)


async def told(person, agent, message):
    receipt = await db.run(accept.accept, person.principal, agent, message)
    await carry_out(receipt.run)
    return await db.run(task_of, receipt.task)


async def answered(person, task, answer, said):
    """The task after the owner's answer, and after its run if that follows."""
    part = {"text": answer} if isinstance(answer, str) else {"data": answer}
    message = said(taskId=str(task.pk), parts=[part])
    receipt = await db.run(accept.accept, person.principal, task.agent, message)
    if receipt.run:
        await carry_out(receipt.run)
    return await db.run(task_of, task.pk)


def decided_by(person, task, answer):
    approvals.decide(person.principal, task.pk, task_of(task.pk).status_event, answer)
    waiting = Run.objects.filter(task=task.pk, state="queued").first()
    return waiting.pk if waiting else None


def words(task):
    return task.status_message["parts"][0]["text"]


def shown(task):
    return task.status_message["parts"][1]["data"]


async def the_record_holds():
    for context in await db.run(list, Context.objects.all()):
        assert await db.run(projection.differences, context.pk) == []


def decisions(task):
    rows = Event.objects.filter(task=task.pk, payload__has_key="approval").order_by("index")
    return [row.payload["approval"] for row in rows]


def tool_events(task):
    rows = Event.objects.filter(task=task.pk, type__startswith="agent_tool").order_by("index")
    return [(row.type, row.payload["name"]) for row in rows]


async def test_without_a_policy_tools_run(ada, agent, said):
    task = await told(ada, agent, said("send_mail bob"))
    assert (task.state, SENT) == ("completed", [("bob", "")])


async def test_an_approved_call_runs_once_with_what_the_person_saw(ada, agent, said):
    await db.run(policy, agent, "send_mail", "ask")
    task = await told(ada, agent, said("send_mail bob hello\nlook here"))
    assert (task.state, task.slot["name"], SENT, LOOKED) == ("input-required", "tool_approval", [], ["here"])
    about = {"tool": "send_mail", "kind": "function", "description": "Sends a mail."}
    assert shown(task) == about | {"arguments": {"to": "bob", "body": "hello"}}
    task = await answered(ada, task, APPROVE, said)
    assert (task.state, SENT, LOOKED) == ("completed", [("bob", "hello")], ["here"])
    assert words(task) == "send_mail: sent to bob | look: seen here"
    [given] = await db.run(decisions, task)
    assert given["approved"]
    assert given["by"] == ada.pk
    assert given["arguments"] == {"to": "bob", "body": "hello"}
    assert await db.run(tool_events, task) == [
        ("agent_tool_call", "look"),
        ("agent_tool_result", "look"),
        ("agent_tool_call", "send_mail"),
        ("agent_tool_result", "send_mail"),
    ]
    entry = await db.run(AuditEntry.objects.get, action="tool.approved")
    assert (entry.actor_key, entry.details["tool"]) == (str(ada.pk), "send_mail")
    assert "hello" not in str(entry.details), "arguments are content"
    await the_record_holds()


async def test_the_person_may_edit_the_arguments_within_the_tools_schema(ada, agent, said):
    await db.run(policy, agent, "send_mail", "ask")
    task = await told(ada, agent, said("send_mail bob hello"))
    with pytest.raises(InvalidParams) as refused:
        await answered(ada, task, APPROVE | {"arguments": {"to": 5}}, said)
    assert refused.value.field == "arguments.to"
    task = await answered(ada, task, APPROVE | {"arguments": {"to": "carl", "body": "good day"}}, said)
    assert (task.state, SENT) == ("completed", [("carl", "good day")])
    [given] = await db.run(decisions, task)
    assert given["edited"]
    assert given["arguments"] == {"to": "carl", "body": "good day"}


@pytest.mark.parametrize("answer", [REFUSE | {"reason": "Not to him."}, "Not to him."])
async def test_a_refusal_reaches_the_model_with_its_reason(ada, agent, said, answer):
    await db.run(policy, agent, "send_mail", "ask")
    task = await answered(ada, await told(ada, agent, said("send_mail bob")), answer, said)
    assert (task.state, SENT) == ("completed", [])
    assert "refused this call" in words(task)
    assert "Not to him." in words(task)
    assert await db.run(AuditEntry.objects.filter(action="tool.refused").count) == 1


@pytest.mark.parametrize(
    ("text", "decision"), [("Approve.", "approve"), ("yes", "approve"), ("no", "refuse"), ("yes, but later", "refuse")]
)
def test_words_that_do_not_plainly_approve_refuse(text, decision):
    assert answer_in(user_message(text))["decision"] == decision


async def test_calls_of_one_step_are_asked_one_after_the_other(ada, agent, said):
    await db.run(policy, agent, "send_mail", "ask")
    task = await told(ada, agent, said("send_mail bob\nsend_mail carl"))
    task = await answered(ada, task, REFUSE, said)
    assert (task.state, shown(task)["arguments"], SENT) == ("input-required", {"to": "carl"}, [])
    task = await answered(ada, task, APPROVE, said)
    assert (task.state, SENT) == ("completed", [("carl", "")])
    await the_record_holds()


async def test_never_tells_the_model_that_it_is_not_allowed(ada, agent, said):
    await db.run(policy, agent, "send_*", "never")
    task = await told(ada, agent, said("send_mail bob"))
    assert (task.state, SENT) == ("completed", [])
    assert "may never use the tool send_mail" in words(task)


async def test_a_tool_can_declare_that_it_needs_approval_and_operators_overrule_it(ada, agent, said):
    task = await told(ada, agent, said("delete_all"))
    assert (task.state, SENT) == ("input-required", [])
    await db.run(policy, agent, "function:*", "run")
    assert (await told(ada, agent, said("delete_all"))).state == "input-required"
    await db.run(policy, agent, "delete_all", "run")
    assert (await told(ada, agent, said("delete_all"))).state == "completed"


async def test_a_choice_for_the_session_holds_for_this_tool_and_session_only(ada, agent, said):
    await db.run(policy, agent, "*", "ask")
    task = await told(ada, agent, said("send_mail bob"))
    task = await answered(ada, task, APPROVE | {"for_session": True}, said)
    context = task.context.context_id
    again = await told(ada, agent, said("send_mail carl", contextId=context))
    assert (again.state, len(SENT)) == ("completed", 2)
    assert (await told(ada, agent, said("look here", contextId=context))).state == "input-required"
    assert (await told(ada, agent, said("send_mail dan"))).state == "input-required"
    await db.run(ToolPolicy.objects.filter(agent=agent).update, policy="ask_two")
    assert (await told(ada, agent, said("send_mail eve", contextId=context))).state == "input-required"


async def test_a_choice_for_the_session_holds_for_the_person_who_made_it_only(ada, bob, agent, said):
    await db.run(policy, agent, "*", "ask")
    colleague = await db.run(member, bob, ada)
    task = await answered(ada, await told(ada, agent, said("send_mail bob")), APPROVE | {"for_session": True}, said)
    await db.run(share_session, ada.principal, task.context_id, Context.Sharing.WORKSPACE)
    in_it = {"contextId": str(task.context_id)}
    his = await told(SimpleNamespace(principal=colleague), agent, said("send_mail carl", **in_it))
    assert (his.owner_id, his.context_id, his.state, len(SENT)) == (bob.pk, task.context_id, "input-required", 1)
    assert (await told(ada, agent, said("send_mail dan", **in_it))).state == "completed"


async def test_two_different_people_must_approve(ada, bob, boss, agent, said):
    await db.run(policy, agent, "send_mail", "ask_two")
    task = await told(ada, agent, said("send_mail bob"))
    task = await answered(ada, task, APPROVE, said)
    assert (task.state, SENT, shown(task)["approvedBy"]) == ("input-required", [], ["Ada"])
    with pytest.raises(AlreadyApproved):
        await answered(ada, task, APPROVE, said)
    with pytest.raises(TaskNotFound):
        await db.run(decided_by, bob, task, APPROVE)
    with pytest.raises(AlreadyAnswered):
        await db.run(approvals.decide, boss.principal, task.pk, task.status_event - 1, APPROVE)
    await carry_out(await db.run(decided_by, boss, task, APPROVE))
    assert (await db.run(task_of, task.pk)).state == "completed"
    assert SENT == [("bob", "")]
    assert [one["by"] for one in await db.run(decisions, task)] == [ada.pk, boss.pk]
    await the_record_holds()


async def test_whoever_edits_an_approved_call_is_its_first_approver(ada, boss, agent, said):
    await db.run(policy, agent, "send_mail", "ask_two")
    task = await answered(ada, await told(ada, agent, said("send_mail bob")), APPROVE, said)
    assert await db.run(decided_by, boss, task, APPROVE | {"arguments": {"to": "eve"}}) is None
    assert SENT == []
    task = await answered(ada, await db.run(task_of, task.pk), APPROVE, said)
    assert (task.state, SENT) == ("completed", [("eve", "")])


async def test_one_refusal_is_enough(ada, boss, agent, said):
    await db.run(policy, agent, "send_mail", "ask_two")
    task = await told(ada, agent, said("send_mail bob"))
    await carry_out(await db.run(decided_by, boss, task, REFUSE))
    assert ((await db.run(task_of, task.pk)).state, SENT) == ("completed", [])


async def test_others_decide_only_about_calls_that_need_two(ada, boss, agent, said):
    await db.run(policy, agent, "send_mail", "ask")
    task = await told(ada, agent, said("send_mail bob"))
    with pytest.raises(TaskNotFound):
        await db.run(decided_by, boss, task, APPROVE)


async def test_an_unknown_caller_cannot_approve_but_an_operator_can(boss, agent, said):
    anonymous = Anonymous()
    await db.run(policy, agent, "send_mail", "ask")
    task = await told(anonymous, agent, said("send_mail bob"))
    with pytest.raises(ApproverUnknown):
        await answered(anonymous, task, APPROVE, said)
    await carry_out(await db.run(decided_by, boss, task, APPROVE))
    assert ((await db.run(task_of, task.pk)).state, SENT) == ("completed", [("bob", "")])


async def test_a_stricter_policy_counts_though_the_call_was_approved(ada, agent, said):
    await db.run(policy, agent, "send_mail", "ask")
    task = await told(ada, agent, said("send_mail bob"))
    await db.run(ToolPolicy.objects.update, policy="never")
    task = await answered(ada, task, APPROVE, said)
    assert (task.state, SENT) == ("completed", [])
    await db.run(ToolPolicy.objects.update, policy="ask")
    task = await told(ada, agent, said("send_mail bob"))
    await db.run(ToolPolicy.objects.update, policy="ask_two")
    task = await answered(ada, task, APPROVE, said)
    assert (task.state, task.slot["approvers"], SENT) == ("input-required", 2, [])


async def test_a_message_that_came_before_the_question_approves_nothing(ada, agent, said):
    await db.run(policy, agent, "send_mail", "ask")
    receipt = await db.run(accept.accept, ada.principal, agent, said("send_mail bob"))
    await db.run(accept.accept, ada.principal, agent, said("yes", taskId=str(receipt.task)))
    await carry_out(receipt.run)
    following = await db.run(Run.objects.get, task=receipt.task, state="queued")
    await carry_out(following.pk)
    task = await db.run(task_of, receipt.task)
    assert (task.state, SENT) == ("completed", [])
    assert "wrote meanwhile: yes" in words(task)


@pytest.mark.parametrize("called", ["obedient: send_mail bob", "middle: obedient: send_mail bob"])
async def test_an_early_message_approves_no_called_agents_call(called, ada, agent, said):
    await db.run(policy, agent, "send_mail", "ask")
    for slug in ("middle", "caller"):
        calling = await db.run(register_hosted, slug, "tests.engine.calling_agents:Caller", access="public")
    receipt = await db.run(accept.accept, ada.principal, calling, said(called))
    await db.run(accept.accept, ada.principal, calling, said("yes", taskId=str(receipt.task)))
    await _with_children(receipt.run, receipt.task)
    following = await db.run(Run.objects.get, task=receipt.task, state="queued")
    await _with_children(following.pk, receipt.task)
    task = await db.run(task_of, receipt.task)
    assert (task.state, SENT) == ("completed", [])
    assert "wrote meanwhile: yes" in words(task)


async def test_an_approval_outlives_a_killed_worker(ada, agent, said):
    await db.run(policy, agent, "send_mail", "ask")
    task = await told(ada, agent, said("send_mail bob"))
    message = said(taskId=str(task.pk), parts=[{"data": APPROVE}])
    receipt = await db.run(accept.accept, ada.principal, agent, message)
    lost = await db.run(begin, receipt.run)  # the worker dies before the call
    await db.run(let_the_lease_run_out, lost.lease)
    await carry_out(receipt.run)
    assert ((await db.run(task_of, task.pk)).state, SENT) == ("completed", [("bob", "")])
    await the_record_holds()


async def test_a_call_that_has_begun_is_not_made_again(ada, agent, said):
    await db.run(Agent.objects.filter(pk=agent.pk).update, retry_safe=True)
    await db.run(policy, agent, "send_mail", "ask")
    task = await told(ada, agent, said("send_mail bob"))
    message = said(taskId=str(task.pk), parts=[{"data": APPROVE}])
    receipt = await db.run(accept.accept, ada.principal, agent, message)
    first = await db.run(begin, receipt.run)
    calls = approvals.TurnApprovals(first, approvals.Recorder(first))
    assert await calls.begin(next(iter(first.decisions)), "send_mail", {"to": "bob"}) is None
    SENT.append(("bob", ""))  # the worker dies here: nobody recorded the result
    await db.run(let_the_lease_run_out, first.lease)
    await carry_out(receipt.run)
    task = await db.run(task_of, task.pk)
    assert (task.state, SENT) == ("completed", [("bob", "")])
    assert "interrupted" in words(task)


async def test_a_worker_that_lost_its_lease_makes_no_call(ada, agent, said):
    await db.run(policy, agent, "send_mail", "ask")
    task = await told(ada, agent, said("send_mail bob"))
    message = said(taskId=str(task.pk), parts=[{"data": APPROVE}])
    receipt = await db.run(accept.accept, ada.principal, agent, message)
    late = await db.run(begin, receipt.run)
    await db.run(let_the_lease_run_out, late.lease)
    await carry_out(receipt.run)
    calls = approvals.TurnApprovals(late, approvals.Recorder(late))
    with pytest.raises(LeaseLost):
        await calls.begin("another", "send_mail", {"to": "bob"})
    assert SENT == [("bob", "")]


async def test_an_approved_call_is_not_repeated_when_another_agent_asks_in_the_same_step(ada, agent, said):
    await db.run(policy, agent, "*", "ask")
    await db.run(policy, agent, "agent:*", "ask")
    task = await told(ada, agent, said("send_mail bob\nask_wondering now"))
    task = await answered(ada, task, APPROVE, said)
    receipt = await db.run(accept.accept, ada.principal, agent, said(taskId=str(task.pk), parts=[{"data": APPROVE}]))
    await _with_children(receipt.run, task.pk)
    task = await db.run(task_of, task.pk)
    assert (task.state, words(task), len(SENT)) == ("input-required", "Which one?", 1)
    receipt = await db.run(accept.accept, ada.principal, agent, said("one", taskId=str(task.pk)))
    await _with_children(receipt.run, task.pk)
    task = await db.run(task_of, task.pk)
    assert task.state == "completed", words(task)
    assert "That one." in words(task)
    assert len(SENT) == 1
    await the_record_holds()


async def _with_children(run, parent):
    turn, begun = asyncio.ensure_future(carry_out(run)), {}
    while not (turn.done() and all(one.done() for one in begun.values())):
        for row in await db.run(list, Run.objects.filter(task__parent__isnull=False, state="queued")):
            if row.pk not in begun:
                begun[row.pk] = asyncio.ensure_future(carry_out(row.pk))
        await asyncio.sleep(0.01)
    await asyncio.gather(turn, *begun.values())
    await db.run(jobs.sweep)
