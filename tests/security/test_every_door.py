"""What holds at one door holds at all: nobody continues another's conversation, and no tool's policy is skipped."""

from __future__ import annotations

import asyncio

import pytest

from apps.agents.models import Agent, ToolPolicy
from apps.agents.registration import register_hosted
from apps.record.models import Context, Task
from parley import db
from tests.engine.approving import SENT
from tests.security.knocking import DOORS, Knock, json_rpc
from tests.working import state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

at_every_door = pytest.mark.parametrize("knock", DOORS.values(), ids=DOORS)
SECRET = "the-word-is-osprey"


def logs() -> dict[str, int]:
    return {str(key): last for key, last in Context.objects.values_list("pk", "last_event")}


def names_of(task: Task) -> set[str]:
    """All that a door may call the conversation or its task."""
    keys = {task.pk, task.context_id}
    return {task.context.context_id, *map(str, keys), *(key.hex for key in keys), f"resp_{task.pk.hex}_1"}


@at_every_door
async def test_anothers_conversation_stays_closed(knock: Knock, ada_key: str, bob_key: str, speaking: Agent) -> None:
    await json_rpc(ada_key, "speaking", SECRET, "")
    task = await db.run(Task.objects.select_related("context").get)
    before = await db.run(logs)
    for name in names_of(task):
        assert SECRET not in await knock(bob_key, "speaking", "hello", name), name
    after = await db.run(logs)
    assert {key: after[key] for key in before} == before


@at_every_door
async def test_anothers_question_stays_open(knock: Knock, ada_key: str, bob_key: str, speaking: Agent) -> None:
    await json_rpc(ada_key, "speaking", "ask", "")
    task = await db.run(Task.objects.select_related("context").get)
    for name in names_of(task):
        await knock(bob_key, "speaking", "blue", name)
    assert await db.run(state_of, task.pk) == "input-required"


@at_every_door
async def test_ones_own_conversation_goes_on(knock: Knock, ada_key: str, speaking: Agent) -> None:
    """Or the tests above would show nothing."""
    await json_rpc(ada_key, "speaking", "ask", "")
    task = await db.run(Task.objects.select_related("context").get)
    before = await db.run(logs)
    for name in names_of(task):
        await knock(ada_key, "speaking", "blue", name)
    assert (await db.run(logs))[str(task.context_id)] > before[str(task.context_id)]


@pytest.fixture
def obedient(db: None) -> Agent:
    SENT.clear()
    for name in ("Tempting", "Wondering"):  # whom it can call
        register_hosted(name.lower(), f"tests.engine.approving:{name}")
    agent = register_hosted("obedient", "tests.engine.approving:Obedient", access=Agent.Access.AUTHENTICATED)
    Agent.objects.update(mcp_tools="agent")
    return agent


async def settled() -> str:
    """The state of the only task once nobody works on it: not each door waits."""

    def found() -> str:
        [state] = Task.objects.values_list("state", flat=True)
        return str(state)

    async with asyncio.timeout(60):
        while (state := await db.run(found)) in ("submitted", "working"):  # noqa: ASYNC110 - it is in the database
            await asyncio.sleep(0.05)
    return state


@pytest.mark.parametrize("policy", ["ask", "never"])
@at_every_door
async def test_no_door_skips_a_tools_policy(knock: Knock, ada_key: str, obedient: Agent, policy: str) -> None:
    await db.run(lambda: ToolPolicy.objects.create(agent=obedient, tool="send_mail", policy=policy))
    await knock(ada_key, "obedient", "send_mail bob", "")
    assert await settled() == {"ask": "input-required", "never": "completed"}[policy]
    assert SENT == []


@at_every_door
async def test_every_door_runs_what_is_allowed(knock: Knock, ada_key: str, obedient: Agent) -> None:
    """Or the test above would show nothing."""
    await knock(ada_key, "obedient", "send_mail bob", "")
    assert await settled() == "completed"
    assert SENT == [("bob", "")]
