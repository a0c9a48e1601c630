"""Rails hold on every way to an agent: tools, fallbacks, plans and calling agents."""

import asyncio

import pytest
from django.db import DatabaseError

from agentkit import Completed, SkillHandler, TaskContext
from apps.agents.models import Agent, ToolPolicy
from apps.agents.registration import house_workspace, register_hosted
from apps.conversations.sessions.commands import share_session
from apps.engine import accept
from apps.engine.turns import turn
from apps.engine.turns.guards import ManagersDecide
from apps.optional.guardrails import current
from apps.optional.guardrails.current import NotRead, Snapshot
from apps.optional.guardrails.models import Guardrail
from apps.plans.models import PlanRun
from apps.record.execution import Run
from apps.record.models import Context, Event
from parley import db
from parley.registry import added
from tests.engine.approving import SENT
from tests.engine.delegating import carried_on, take_turn, task_of, until, words
from tests.members import member
from tests.plans.conftest import agents, plan, play  # noqa: F401

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("published")]
MAIL = "Write to joe@example.org today"
HIDDEN = "Write to [e-mail address] today"


class Standing(SkillHandler):
    async def on_request(self, task: TaskContext):
        return Completed(f"heard {task.message.text}; so joe@example.org")


class Calling(SkillHandler):
    retry_safe = True

    async def on_request(self, task: TaskContext):
        return Completed((await task.call("standing", "hello")).text)


async def test_edited_arguments_are_checked(ada, rail, said):
    SENT.clear()
    agent = await db.run(
        lambda: register_hosted("obedient", "tests.engine.approving:Obedient", access=Agent.Access.PUBLIC)
    )
    await ToolPolicy.objects.acreate(agent=agent, tool="send_mail", policy="ask")
    await rail(action="redact", direction="in")
    task = await take_turn(ada.principal, agent, said("send_mail bob"))
    answer = {"decision": "approve", "arguments": {"to": "joe@example.org", "body": "x"}}
    message = said(taskId=str(task.pk)) | {"parts": [{"data": answer}]}
    task = await take_turn(ada.principal, agent, message)
    assert (task.state, SENT) == ("completed", [("[e-mail address]", "x")])


async def test_agents_rails_hold_for_its_fallback(ada, agent, rail, said, monkeypatch):
    async def unreachable(assignment, task, _):
        raise turn.AgentUnavailable("Far does not answer.")

    monkeypatch.setitem(added, ("executors", "remote"), unreachable)
    standing = await agent(Standing)
    where = await db.run(house_workspace)
    about = {"name": "Far", "description": "Far.", "workspace": where, "fallbacks": [standing.slug]}
    far = await Agent.objects.acreate(slug="far", kind="remote", **about)
    await rail(action="redact", agents=["far"])
    task = await take_turn(ada.principal, far, said(MAIL))
    assert words(task) == f"heard {HIDDEN}; so [e-mail address]"


async def test_plan_begins_with_what_passed(ada, rail, play):  # noqa: F811
    await rail(action="ask", direction="in", agents=["plan"])
    steps = {"one": {"agent": "loud", "message": "{{ inputs.text }}"}}
    task = await asyncio.to_thread(db.with_database, lambda: play(steps, MAIL))
    assert task.state == "input-required"
    task = await asyncio.to_thread(db.with_database, lambda: play.answer(task, "redact"))
    run = await PlanRun.objects.aget(pk=task.pk)
    assert (task.state, run.inputs["text"]) == ("completed", HIDDEN)


async def test_manager_decides_through_calling_agent(ada, bob, agent, rail, said):
    await agent(Standing)
    calling = await agent(Calling)
    await rail(action="ask", direction="out", decided_by="managers", agents=["standing"])
    there = await db.run(member, bob, ada)

    async def with_child(turn_of_parent):
        work = asyncio.create_task(turn_of_parent)
        child = await until(lambda: Run.objects.filter(task__agent__slug="standing", state="queued").first())
        await carried_on(child.task_id)
        await work

    receipt = await db.run(accept.accept, there, calling, said())
    await with_child(carried_on(receipt.task))
    await db.run(share_session, there, receipt.context, Context.Sharing.WORKSPACE)
    answer = said("show", taskId=str(receipt.task))
    with pytest.raises(ManagersDecide):
        await db.run(accept.accept, there, calling, answer)
    await db.run(accept.accept, ada.principal, calling, said("show", taskId=str(receipt.task)))
    await with_child(carried_on(receipt.task))
    task = await task_of(receipt.task)
    assert (task.state, words(task)) == ("completed", "heard hello; so joe@example.org")


async def test_rails_judge_no_words_of_the_platform(ada, agent, rail, said):
    standing = await agent(Standing)
    await rail(action="block", direction="in", name="Addresses")
    await rail(action="block", direction="out", check_kind="patterns", words="Addresses", name="Second")
    task = await take_turn(ada.principal, standing, said(MAIL))
    assert "Addresses" in words(task)
    assert await Event.objects.filter(context=task.context_id, type="guardrail").acount() == 1


def test_unread_rails_let_nothing_pass(monkeypatch):
    def fail(**_):
        raise DatabaseError

    monkeypatch.setattr(Guardrail.objects, "filter", fail)
    current.keep(Snapshot(was_read=False))
    with pytest.raises(NotRead):
        current.rails_now()
    current.keep(Snapshot())
    assert current.rails_now() == ()
