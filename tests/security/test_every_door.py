"""What holds at one door holds at all: nobody continues another's conversation, and no tool's policy is skipped."""

from __future__ import annotations

import asyncio

import pytest

from apps.agents.models import Agent, ToolPolicy
from apps.agents.registration import register_hosted
from apps.record.models import Context, Task
from parley import db
from tests.engine.approving import SENT
from tests.security.knocking import DOORS, json_rpc
from tests.working import state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

SECRET = "the-word-is-osprey"


def logs() -> dict[str, int]:
    return {str(key): last for key, last in Context.objects.values_list("pk", "last_event")}


def names_of(task: Task) -> set[str]:
    """All that a door may call the conversation or its task."""
    keys = {task.pk, task.context_id}
    return {task.context.context_id, *map(str, keys), *(key.hex for key in keys), f"resp_{task.pk.hex}_1"}


async def told(key: str, text: str) -> Task:
    """A new task of the speaking agent."""
    known = await db.run(lambda: set(Task.objects.values_list("pk", flat=True)))
    await json_rpc(key, "speaking", text, "")
    return await db.run(Task.objects.select_related("context").exclude(pk__in=known).get)


async def test_anothers_conversation_stays_closed(ada_key, bob_key, speaking):
    for door, knock in DOORS.items():
        task = await told(ada_key, SECRET)
        before = await db.run(logs)
        for name in names_of(task):
            assert SECRET not in await knock(bob_key, "speaking", "hello", name), (door, name)
        assert (await db.run(logs))[str(task.context_id)] == before[str(task.context_id)], door


async def test_question_is_open_to_its_owner_alone(ada_key, bob_key, speaking):
    for door, knock in DOORS.items():
        task = await told(ada_key, "ask")
        before = await db.run(logs)
        for name in names_of(task):
            await knock(bob_key, "speaking", "blue", name)
        assert await db.run(state_of, task.pk) == "input-required", door
        for name in names_of(task):
            await knock(ada_key, "speaking", "blue", name)
        assert (await db.run(logs))[str(task.context_id)] > before[str(task.context_id)], door


@pytest.fixture
def obedient(db):
    SENT.clear()
    for name in ("Tempting", "Wondering"):  # whom it can call
        register_hosted(name.lower(), f"tests.engine.approving:{name}")
    agent = register_hosted("obedient", "tests.engine.approving:Obedient", access=Agent.Access.AUTHENTICATED)
    Agent.objects.update(mcp_tools="agent")
    return agent


async def settled() -> str:
    """The state of the newest task once nobody works on it: not each door waits."""

    def found() -> str:
        return str(Task.objects.latest("created_at").state)

    async with asyncio.timeout(60):
        while (state := await db.run(found)) in ("submitted", "working"):  # noqa: ASYNC110 - it is in the database
            await asyncio.sleep(0.05)
    return state


@pytest.mark.parametrize(("policy", "state"), [("ask", "input-required"), ("never", "completed"), ("", "completed")])
async def test_no_door_skips_a_tools_policy(ada_key, obedient, policy, state):
    """Without one, each door lets the tool be called."""
    if policy:
        await db.run(lambda: ToolPolicy.objects.create(agent=obedient, tool="send_mail", policy=policy))
    for door, knock in DOORS.items():
        SENT.clear()
        await knock(ada_key, "obedient", "send_mail bob", "")
        assert await settled() == state, door
        assert ([] if policy else [("bob", "")]) == SENT, door
