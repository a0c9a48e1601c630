"""What holds at one door holds at all: nobody continues another's conversation, and no tool's policy is skipped."""

from __future__ import annotations

import pytest

import db
from apps.agents.models import Agent
from apps.record.models import Context, Task
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
    return {task.context.context_id, *map(str, keys), *(key.hex for key in keys), f"resp_{task.pk.hex}"}


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
