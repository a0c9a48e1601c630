"""An agent's session memory: merged by key, deleted with the session."""

import pytest

import db
from agentkit import Completed
from apps.engine import accept
from apps.engine.output import memory_changes
from apps.features.sessions import deletion
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Context, Task
from tests.working import begin, carry_out, end

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def keeping(agent_at):
    return await agent_at("tests.engine.skilled:Keeping")


async def turn(ada, agent, message):
    """A one-turn task: the agent's memory before it, and the context after it."""
    receipt = await db.run(accept.accept, ada.principal, agent, message)
    await carry_out(receipt.run)

    def read():
        context = Context.objects.get(pk=receipt.context)
        task = Task.objects.get(pk=receipt.task)
        assert projection.differences(context.pk) == []
        data = [part["data"]["kept"] for one in task.artifacts.all() for part in one.parts if "data" in part]
        return (data or [None])[0], context, task

    return await db.run(read)


def change(said, text="", context=None, **values):
    where = {"contextId": context.context_id} if context else {}
    return said(parts=[{"text": text}, {"data": values}], **where)


async def test_the_next_task_of_the_conversation_finds_it(ada, keeping, said):
    kept, context, _ = await turn(ada, keeping, change(said, name="Ada", seen=[1, 2]))
    assert (kept, context.memory) == ({}, {"name": "Ada", "seen": [1, 2]})
    kept, context, _ = await turn(ada, keeping, change(said, context=context, name=None))
    assert (kept, context.memory) == ({"name": "Ada", "seen": [1, 2]}, {"seen": [1, 2]})
    other, _, _ = await turn(ada, keeping, change(said))
    assert other == {}, "another conversation has its own"


async def test_what_is_changed_deep_inside_is_kept_too(ada, agent_at, said):
    deep = await agent_at("tests.engine.skilled:KeepingDeep")
    _, context, _ = await turn(ada, deep, said("a"))
    _, context, _ = await turn(ada, deep, said("b", contextId=context.context_id))
    assert context.memory == {"seen": ["a", "b"]}


async def test_tasks_side_by_side_do_not_undo_each_other(ada, keeping, said):
    _, context, _ = await turn(ada, keeping, change(said, a=1, b=1, gone=1))

    def side_by_side():
        sent = [
            accept.accept(ada.principal, keeping, said(contextId=context.context_id, parts=[{"data": {}}]))
            for _ in range(2)
        ]
        held = [begin(one.run) for one in sent]
        before = {"a": 1, "b": 1, "gone": 1}
        end(held[0], Completed("x"), session=memory_changes(before, {"a": 2, "b": 1, "gone": 1, "new": [1]}))
        end(held[1], Completed("x"), session=memory_changes(before, {"a": 1, "b": 2}))
        return Context.objects.get(pk=context.pk).memory

    assert await db.run(side_by_side) == {"a": 2, "b": 2, "new": [1]}


async def test_a_turn_that_fails_keeps_what_it_had_noted(ada, keeping, said):
    _, context, task = await turn(ada, keeping, change(said, "raise", tries=1))
    assert (task.state, context.memory) == ("failed", {"tries": 1})


async def test_too_much_or_no_json_fails_the_task_and_leaves_the_memory_as_it_was(ada, keeping, said):
    _, context, _ = await turn(ada, keeping, change(said, name="Ada"))
    _, context, task = await turn(ada, keeping, change(said, "large", context=context))
    assert task.state == "failed"
    assert task.status_message["parts"][0]["text"] == "The agent wanted to keep more than 64 KiB for this conversation."
    run = await db.run(Run.objects.get, task=task)
    assert run.error["code"] == "memory_too_large"
    assert context.memory == {"name": "Ada"}
    _, context, task = await turn(ada, keeping, change(said, "odd", context=context))
    assert (task.state, context.memory) == ("failed", {"name": "Ada"}), "it is no JSON"


async def test_it_is_erased_with_the_conversation(ada, keeping, said):
    _, context, _ = await turn(ada, keeping, change(said, name="Ada"))
    await db.run(deletion.delete_context, ada.principal, keeping, context.context_id)
    assert await db.run(lambda: Context.objects.get(pk=context.pk).memory) == {}


def test_the_same_again_is_no_change_and_text_is_mended():
    assert memory_changes({"a": [1]}, {"a": [1]}) is None
    assert memory_changes({}, {"a": "\0"}).changed == {"a": "\ufffd"}
