"""Each call of an agent is one child task, linked to and deleted with its parent."""

import base64
import threading
import time

import pytest
from django.test import override_settings

import db
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.engine import cancel, delegation, jobs, send
from apps.features.sessions import deletion
from apps.record import lookup, projection
from apps.record.errors import TaskNotFound
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Task
from tests.engine.calling_agents import EXECUTED, GATES
from tests.engine.delegating import done, ended, sent, until, words

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("worker"),
    pytest.mark.services("parents and children race over the broker and the database"),
]


def states(**which):
    return sorted(Task.objects.filter(**which).values_list("agent__slug", "state"))


async def assert_the_record_holds():
    def check():
        for context in Context.objects.all():
            assert projection.differences(context.pk) == []

    await db.run(check)


async def test_children_are_tasks_of_the_same_owner_in_conversations_of_their_own(ada, bob, cast, said):
    await done(ANONYMOUS, cast["caller"], said("shouting: one"))
    assert await db.run(lambda: list(Task.objects.values_list("owner", flat=True))) == [None, None]
    parent = await done(ada.principal, cast["caller"], said("shouting: one\nshouting: two"))
    assert (parent.state, words(parent)) == ("completed", "ONE | TWO (1)")

    def look():
        children = list(Task.objects.filter(parent=parent.pk).select_related("context"))
        assert {child.owner_id for child in children} == {ada.pk}
        assert len({child.context_id for child in children} | {parent.context_id}) == 3
        assert {child.context.parent_task for child in children} == {parent.pk}
        runs = Run.objects.order_by("priority").values_list("task__parent", "priority")
        assert dict(runs.filter(task__context__owner=ada)) == {parent.pk: Run.Priority.CONTINUED, None: 2}
        listed = Context.objects.visible_to(ada.principal).listed()
        assert list(listed) == [parent.context]
        assert lookup.find_agent_task(ada.principal, cast["shouting"], str(children[0].pk))
        with pytest.raises(TaskNotFound):
            lookup.find_agent_task(bob.principal, cast["shouting"], str(children[0].pk))

    await db.run(look)
    await assert_the_record_holds()


async def test_files_go_down_and_what_was_made_of_them_comes_up(ada, cast, said):
    content = b"x" * 300_000  # too large for a row
    message = said()
    message["parts"] = [{"raw": base64.b64encode(content).decode(), "filename": "x.bin"}]
    parent = await done(ada.principal, cast["passingon"], message)
    assert parent.state == "completed", parent.status_message

    def look():
        passed, references = Artifact.objects.delivered().filter(task=parent).order_by("name")
        assert passed.parts[0] == {"text": "ONCE"}
        assert passed.parts[1]["stored"]["size"] == len(content)
        assert references.parts[0]["text"] == "ONCE"

    await db.run(look)
    await assert_the_record_holds()


async def test_an_agent_that_the_owner_may_not_use_is_not_called(ada, cast, said):
    secret = cast["shouting"]
    secret.access = Agent.Access.GROUPS
    await db.run(secret.save)
    for slug in ("shouting", "nobody"):
        parent = await done(ada.principal, cast["caller"], said(f"{slug}: one"))
        assert (parent.state, words(parent)) == (
            "failed",
            f"There is no agent '{slug}' that the owner of this task may use.",
        )
    assert await db.run(Task.objects.filter(parent__isnull=False).count) == 0


async def test_a_child_that_fails_fails_its_parent_with_its_words(ada, cast, said):
    parent = await done(ada.principal, cast["caller"], said("failing: one"))
    assert (parent.state, words(parent)) == (
        "failed",
        "Failing failed: The oven is broken.",
    )


async def test_a_circle_ends_at_the_depth_limit(ada, cast, said):
    parent = await done(ada.principal, cast["circling"], said("round"))
    assert parent.state == "failed"
    assert "8 levels deep" in words(parent)
    assert await db.run(Task.objects.count) == 9


@override_settings(CHILDREN_PER_TASK=3)
async def test_a_task_makes_only_so_many_calls(ada, cast, said):
    parent = await done(ada.principal, cast["caller"], said("\n".join(["shouting: one"] * 5)))
    assert parent.state == "failed"
    assert "at most 3 other agents" in words(parent)
    children = Task.objects.filter(parent=parent.pk)
    await until(lambda: children.count() >= 3)  # the third may still be on its way when the fourth call has failed
    assert await db.run(children.count) == 3


async def test_equal_calls_are_different_children_and_a_key_names_one(ada, cast, said):
    parent = await done(ada.principal, cast["repeating"], said("once"))
    assert words(parent).startswith("SAME SAME ATTEMPT 1")
    assert EXECUTED["shouting:same"] == 2
    parent = await done(ada.principal, cast["repeating"], said("twice"))
    assert parent.state == "failed"
    run = await db.run(lambda: Run.objects.get(task=parent))
    assert "names two calls" in run.error["message"]


async def test_parents_that_wait_leave_room_for_their_children(ada, cast, said):
    from apps.engine.worker import close_current_worker

    await db.run(close_current_worker, 0)
    with override_settings(RUNS_PER_PROCESS=2):
        receipts = [await sent(ada.principal, cast["caller"], said(f"caller: shouting: {n}")) for n in range(5)]
        parents = [await ended(receipt) for receipt in receipts]
        await db.run(close_current_worker, 0)
    assert [words(parent) for parent in parents] == [f"{n} (1) (1)" for n in range(5)]


async def test_the_progress_of_a_child_is_shown_for_its_parent(ada, cast, said):
    receipt = await sent(ada.principal, cast["caller"], said("gated: a"))
    relayed = lambda: Task.objects.get(pk=receipt.task).status_message  # noqa: E731
    status = await until(relayed)
    assert status["parts"] == [{"text": "Gated: waiting at a"}]
    GATES["a"].set()
    assert (await ended(receipt)).state == "completed"


async def test_a_cancel_goes_all_the_way_down(ada, cast, said):
    receipt = await sent(ada.principal, cast["caller"], said("caller: gated: a"))
    await until(lambda: "gated:a" in EXECUTED)
    await db.run(cancel.cancel_by_id, ada.principal, cast["caller"], str(receipt.task))
    assert await db.run(states) == [("caller", "canceled"), ("caller", "canceled"), ("gated", "canceled")]
    await until(lambda: not Run.objects.unfinished().exists())
    await assert_the_record_holds()


@pytest.mark.parametrize(("text", "state"), [("a", "completed"), ("a failing", "failed")])
async def test_children_end_with_the_turn_that_called_for_them(ada, cast, said, text, state):
    receipt = await sent(ada.principal, cast["abandoning"], said(text))
    assert (await ended(receipt)).state == state
    await until(lambda: states(parent=receipt.task) == [("gated", "canceled")])


async def test_the_sweep_finds_children_of_a_parent_that_has_ended(ada, cast, said):
    receipt = await sent(ada.principal, cast["caller"], said("gated: a"))
    await until(lambda: "gated:a" in EXECUTED)

    def crash():  # a crash between the parent's end and its children's
        task = Task.objects.select_related("context").get(pk=receipt.task)
        cancel._record_and_stop(task)

    await db.run(crash)
    await db.run(jobs.sweep)
    assert await db.run(states, parent=receipt.task) == [("gated", "canceled")]


async def test_a_cleared_conversation_takes_those_of_its_children_along(ada, cast, said):
    parent = await done(ada.principal, cast["caller"], said("caller: shouting: one"))
    context = await db.run(lambda: Task.objects.select_related("context").get(pk=parent.pk).context)
    await db.run(deletion.delete_context, ada.principal, cast["caller"], context.context_id)
    assert await db.run(Task.objects.count) == 0
    assert await db.run(Context.objects.filter(deleted_at=None).count) == 0
    await assert_the_record_holds()


async def interrupting(ada, cast, said, text):
    """A caller that is working and takes newer messages at once."""
    cast["caller"].on_busy = Agent.OnBusy.INTERRUPT
    await db.run(cast["caller"].save)
    return await sent(ada.principal, cast["caller"], said(text))


async def test_the_children_of_the_next_turn_do_not_end_with_the_interrupted_one(ada, cast, said, monkeypatch):
    cancel_children = cancel.cancel_children

    def slowly(parent):
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline and "gated:b" not in EXECUTED:  # give the next turn time to call
            time.sleep(0.02)
        cancel_children(parent)

    receipt = await interrupting(ada, cast, said, "gated: a")
    await until(lambda: "gated:a" in EXECUTED)
    monkeypatch.setattr(cancel, "cancel_children", slowly)
    await sent(ada.principal, cast["caller"], said("gated: b", taskId=str(receipt.task)))
    await until(lambda: "gated:b" in EXECUTED)
    GATES["b"].set()
    parent = await ended(receipt)
    assert (parent.state, words(parent)) == ("completed", "b (2)")
    assert await db.run(states, parent=receipt.task) == [("gated", "canceled"), ("gated", "completed")]


async def test_a_child_that_is_being_made_when_its_turn_is_interrupted_ends_with_it(ada, cast, said, monkeypatch):
    making, made = threading.Event(), threading.Event()
    accept = send.accept_and_publish

    def slowly(*args, **more):
        making.set()
        made.wait(5)
        return accept(*args, **more)

    monkeypatch.setattr(delegation, "accept_and_publish", slowly)
    receipt = await interrupting(ada, cast, said, "gated: a")
    await until(making.is_set)
    await sent(ada.principal, cast["caller"], said("shouting: b", taskId=str(receipt.task)))
    await until(lambda: Run.objects.filter(task=receipt.task, interrupted=True).exists())
    made.set()
    parent = await ended(receipt)
    assert words(parent) == "B (2)"
    assert await db.run(states, parent=receipt.task) == [("gated", "canceled"), ("shouting", "completed")]


async def test_a_child_that_is_cleared_fails_its_parent_in_words(ada, cast, said, caplog):
    receipt = await sent(ada.principal, cast["caller"], said("gated: a"))
    await until(lambda: "gated:a" in EXECUTED)
    child = await db.run(lambda: Task.objects.select_related("context").get(parent=receipt.task))
    await db.run(deletion.delete_context, ada.principal, cast["gated"], child.context.context_id)
    parent = await ended(receipt)
    assert (parent.state, words(parent)) == (
        "failed",
        "The agent 'gated' could not finish, because its conversation was cleared.",
    )
