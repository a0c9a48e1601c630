"""Each call of an agent is one child task; its question becomes its parent's, and the answer goes down."""

import asyncio
import base64

import pytest
from django.test import override_settings

from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.conversations.sessions import deletion
from apps.engine import cancel, jobs
from apps.engine.accept import resume
from apps.engine.worker import current_worker
from apps.record.errors import TaskNotFound
from apps.record.execution import Run, Suspension
from apps.record.models import Artifact, Context, Task, TaskState
from apps.record.reading import lookup
from parley import db
from tests.engine.calling_agents import EXECUTED, GATES
from tests.engine.delegating import SOON, done, ended, sent, task_of, the_record_holds, until, words
from tests.working import state_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("worker"),
    pytest.mark.services("parents and children race over the broker and the database"),
]


def states(**which):
    return sorted(Task.objects.filter(**which).values_list("agent__slug", "state"))


@pytest.fixture
def call(ada, cast, said):
    """The task of an agent, once it has ended or asks."""

    async def call(slug, text, parent=None, within=SOON):
        task = {"taskId": str(parent.pk)} if parent else {}
        return await ended(await sent(ada.principal, cast[slug], said(text, **task)), within)

    return call


@pytest.fixture
def begun(ada, cast, said):
    """A caller at work, whose child has reached its gate."""

    async def begin(text, slug="caller", gate="gated:a"):
        receipt = await sent(ada.principal, cast[slug], said(text))
        await until(lambda: gate in EXECUTED)
        return receipt

    return begin


async def test_children_have_owner_and_conversations_of_their_own(ada, bob, cast, said):
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
    await the_record_holds()


async def test_files_go_down_and_artifacts_come_up(ada, cast, said):
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
    await the_record_holds()


@pytest.mark.parametrize(
    ("slug", "text", "told", "children"),
    [
        ("caller", "shouting: one", "There is no agent 'shouting' that the owner of this task may use.", 0),
        ("caller", "failing: one", "Failing failed: The oven is broken.", 1),
        ("caller", "\n".join(["gated: a"] * 5), "at most 3 other agents", 3),
        ("circling", "round", "8 levels deep", 8),
    ],
    ids=["closed", "failing", "many", "circle"],
)
async def test_unfit_calls_fail_their_caller(call, cast, settings, slug, text, told, children):
    settings.CHILDREN_PER_TASK = 3
    await Agent.objects.filter(slug="shouting").aupdate(access=Agent.Access.GROUPS)
    GATES["a"].set()
    parent = await call(slug, text)
    assert (parent.state, told in words(parent)) == ("failed", True)
    found = Task.objects.filter(parent__isnull=False)
    await until(lambda: found.count() >= children)  # the last may still be on its way when another call has failed
    assert await found.acount() == children


async def test_equal_calls_are_different_unless_keyed(call):
    assert words(await call("repeating", "once")).startswith("SAME SAME ATTEMPT 1")
    assert EXECUTED["shouting:same"] == 2
    parent = await call("repeating", "twice")
    assert parent.state == "failed"
    assert "names two calls" in (await Run.objects.aget(task=parent)).error["message"]


async def test_waiting_parents_leave_room_for_children(ada, cast, said):
    from apps.engine.worker import close_current_worker

    await db.run(close_current_worker, 0)
    with override_settings(RUNS_PER_PROCESS=2):
        receipts = [await sent(ada.principal, cast["caller"], said(f"caller: shouting: {n}")) for n in range(5)]
        parents = [await ended(receipt) for receipt in receipts]
        await db.run(close_current_worker, 0)
    assert [words(parent) for parent in parents] == [f"{n} (1) (1)" for n in range(5)]


async def test_cancel_goes_all_the_way_down(ada, cast, begun):
    receipt = await begun("caller: gated: a")
    await db.run(cancel.cancel_by_id, ada.principal, cast["caller"], str(receipt.task))
    assert await db.run(states) == [("caller", "canceled"), ("caller", "canceled"), ("gated", "canceled")]
    await until(lambda: not Run.objects.unfinished().exists())
    await the_record_holds()


async def test_children_end_with_their_turn(begun):
    receipt = await begun("a failing", "abandoning")
    assert (await ended(receipt)).state == "failed"
    await until(lambda: states(parent=receipt.task) == [("gated", "canceled")])


async def test_cleared_conversations_take_children_along(ada, cast, call, begun):
    parent = await task_of((await call("caller", "caller: shouting: one")).pk)
    await db.run(deletion.delete_context, ada.principal, cast["caller"], parent.context.context_id)
    assert (await Task.objects.acount(), await Context.objects.filter(deleted_at=None).acount()) == (0, 0)
    receipt = await begun("gated: a")
    child = await Task.objects.select_related("context").aget(parent=receipt.task)
    await db.run(deletion.delete_context, ada.principal, cast["gated"], child.context.context_id)
    parent = await ended(receipt)
    told = "The agent 'gated' could not finish, because its conversation was cleared."
    assert (parent.state, words(parent)) == ("failed", told)
    await the_record_holds()


# Questions


@pytest.fixture
def asked(call):
    """A caller that asks what its child asks, and the child."""

    async def ask(text="asking: the wall", child="asking"):
        parent = await call("caller", text)
        assert parent.state == TaskState.INPUT_REQUIRED, words(parent)
        row = await Task.objects.select_related("context", "agent").filter(parent=parent.pk, agent__slug=child).afirst()
        return parent, row

    return ask


async def becomes(task, state, within=SOON):
    await until(lambda: state_of(task.pk) == state, within)
    return await task_of(task.pk)


async def test_question_goes_up_and_answer_down(asked, call):
    parent, child = await asked("asking: the wall\nshouting: ready")
    assert words(parent) == "Which colour for the wall?"
    assert (parent.slot["name"], parent.slot["order"]) == ("colour", ["shade", "colour"])
    assert parent.slot["child"] == str(child.pk)
    parent = await call("caller", "blue", parent)
    assert parent.state == "completed"
    assert words(parent) == "the wall: blue | READY (1)", "the turn began with the memory that it had begun with"
    assert EXECUTED["caller:asking: the wall\nshouting: ready"] == 2
    assert EXECUTED["shouting:ready"] == EXECUTED["asking:the wall"] == EXECUTED["answered:blue"] == 1
    assert await Task.objects.filter(parent=parent.pk).acount() == 2
    await db.run(jobs.sweep)
    assert not await Suspension.objects.aexists()
    await the_record_holds()


async def test_questions_come_in_turn_while_siblings_work(ada, cast, said, call):
    begun = await sent(ada.principal, cast["caller"], said("asking: b\ngated: a\nasking: c"))
    await until(lambda: Task.objects.filter(parent=begun.task).count() == 3)
    GATES["b"].set()
    GATES["c"].set()
    parent = await ended(begun)
    first = words(parent)
    await until(lambda: states(parent=parent.pk, state="working") == [("gated", "working")])
    await until(lambda: Task.objects.filter(parent=parent.pk, state=TaskState.INPUT_REQUIRED).count() == 2)
    parent = await call("caller", "blue", parent)
    assert parent.state == TaskState.INPUT_REQUIRED
    assert {first, words(parent)} == {"Which colour for b?", "Which colour for c?"}
    GATES["a"].set()
    parent = await call("caller", "red", parent)
    colours = ("blue", "red") if first.endswith("b?") else ("red", "blue")
    assert words(parent) == f"b: {colours[0]} | a | c: {colours[1]} (1)"
    assert EXECUTED["gated:a"] == 1
    await the_record_holds()


async def test_child_answered_itself_continues_its_parent_once(ada, cast, said, asked):
    parent, child = await asked()
    await asyncio.gather(
        *(db.run(resume, parent.pk, because="test") for _ in range(2)),
        sent(ada.principal, cast["asking"], said("green", taskId=str(child.pk))),
    )
    assert words(await becomes(parent, "completed")) == "the wall: green (1)"
    assert EXECUTED["answered:green"] == 1
    await the_record_holds()


async def unheard(child):
    """From now on nobody is told of what the child does, as when a process died."""
    await until(lambda: not current_worker()._active)
    await Context.objects.filter(pk=child.context_id).aupdate(is_watched=False)


async def test_waiting_message_is_no_credential(ada, cast, said, begun):
    receipt = await begun("a", "following")
    await sent(ada.principal, cast["following"], said("be quick", taskId=str(receipt.task)))
    GATES["a"].set()
    parent = await ended(receipt, within=8)
    assert (parent.state, parent.slot["service"]) == (TaskState.AUTH_REQUIRED, "safe")
    assert EXECUTED["keyed:the safe"] == 1
    await the_record_holds()


async def test_cancel_reaches_asking_children(ada, cast, asked):
    parent, child = await asked()
    await db.run(cancel.cancel_by_id, ada.principal, cast["caller"], str(parent.pk))
    await becomes(child, "canceled", within=0.1)
    await db.run(jobs.sweep)
    assert not await Suspension.objects.aexists()


async def test_sweep_finds_an_untold_childs_newest_question(ada, cast, said, call, asked):
    parent, child = await asked("askingtwice: it", "askingtwice")
    await unheard(child)
    await sent(ada.principal, cast["askingtwice"], said("one", taskId=str(child.pk)))
    await until(lambda: (Task.objects.get(pk=child.pk).slot or {}).get("name") == "second")
    await db.run(jobs.sweep)
    await until(lambda: (Task.objects.get(pk=parent.pk).slot or {}).get("name") == "second", within=5)
    assert words(await call("caller", "two", parent)) == "one, two (1)"
    await the_record_holds()


async def test_cleared_asking_child_fails_its_parent(ada, cast, asked):
    parent, child = await asked()
    await until(lambda: not current_worker()._active)
    await db.run(deletion.delete_context, ada.principal, cast["asking"], child.context.context_id)
    await db.run(jobs.sweep)
    assert "its conversation was cleared" in words(await becomes(parent, "failed", within=5))
    await the_record_holds()
