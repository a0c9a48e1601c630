"""A child's question becomes its parent's, and the answer goes down."""

import asyncio

import pytest
from django.db import models

import db
from apps.engine import cancel, delegation, jobs
from apps.engine.accept import resume
from apps.engine.worker import current_worker
from apps.features.sessions import deletion
from apps.record import projection
from apps.record.execution import Run, Suspension
from apps.record.models import Artifact, Context, Task, TaskState
from tests.engine.calling_agents import EXECUTED, GATES
from tests.engine.delegating import done, ended, sent, until, words
from tests.working import state_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("worker"),
    pytest.mark.services("parents and children race over the broker and the database"),
]


async def asked(ada, cast, said, text="asking: the wall"):
    parent = await done(ada.principal, cast["caller"], said(text))
    assert parent.state == TaskState.INPUT_REQUIRED, words(parent)
    return parent


async def answered(ada, cast, said, parent, text):
    """The parent after the answer, once it has ended or asks again."""
    return await ended(await sent(ada.principal, cast["caller"], said(text, taskId=str(parent.pk))))


def child_of(parent, agent="asking"):
    return Task.objects.select_related("context", "agent").get(parent=parent.pk, agent__slug=agent)


async def the_record_holds():
    for context in await db.run(list, Context.objects.all()):
        assert await db.run(projection.differences, context.pk) == []


async def test_the_question_is_the_childs(ada, cast, said):
    parent = await asked(ada, cast, said)
    child = await db.run(child_of, parent)
    assert words(parent) == "Which colour for the wall?"
    assert (parent.slot["name"], parent.slot["order"]) == ("colour", ["shade", "colour"])
    assert parent.slot["child"] == str(child.pk)
    await the_record_holds()


async def test_the_answer_goes_down_and_the_turn_is_taken_again(ada, cast, said):
    parent = await asked(ada, cast, said, "asking: the wall\nshouting: ready")
    parent = await answered(ada, cast, said, parent, "blue")
    assert parent.state == "completed"
    assert words(parent) == "the wall: blue | READY (1)", "the turn began with the memory that it had begun with"
    assert EXECUTED["caller:asking: the wall\nshouting: ready"] == 2
    assert EXECUTED["shouting:ready"] == EXECUTED["asking:the wall"] == EXECUTED["answered:blue"] == 1
    assert await db.run(Task.objects.filter(parent=parent.pk).count) == 2
    await db.run(jobs.sweep)
    assert not await db.run(Suspension.objects.exists)
    await the_record_holds()


async def test_a_question_goes_up_and_its_answer_down_through_every_level(ada, cast, said):
    parent = await asked(ada, cast, said, "caller: caller: asking: the roof")
    parent = await answered(ada, cast, said, parent, "red")
    assert (parent.state, words(parent)) == ("completed", "the roof: red (1) (1) (1)")
    await the_record_holds()


async def test_one_question_after_the_other_while_siblings_go_on(ada, cast, said):
    begun = await sent(ada.principal, cast["caller"], said("asking: b\ngated: a\nasking: c"))
    await until(lambda: Task.objects.filter(parent=begun.task).count() == 3)
    GATES["b"].set()
    GATES["c"].set()
    parent = await ended(begun)
    first = words(parent)
    sibling = await db.run(child_of, parent, "gated")
    await until(lambda: state_of(sibling.pk) == "working")
    both = lambda: Task.objects.filter(parent=parent.pk, state=TaskState.INPUT_REQUIRED).count() == 2  # noqa: E731
    await until(both)
    parent = await answered(ada, cast, said, parent, "blue")
    assert parent.state == TaskState.INPUT_REQUIRED
    assert {first, words(parent)} == {"Which colour for b?", "Which colour for c?"}
    GATES["a"].set()
    parent = await answered(ada, cast, said, parent, "red")
    colours = ("blue", "red") if first.endswith("b?") else ("red", "blue")
    assert words(parent) == f"b: {colours[0]} | a | c: {colours[1]} (1)"
    assert EXECUTED["gated:a"] == 1
    await the_record_holds()


async def test_a_child_that_is_answered_itself_takes_its_parent_along(ada, cast, said):
    parent = await asked(ada, cast, said)
    child = await db.run(child_of, parent)
    await sent(ada.principal, cast["asking"], said("green", taskId=str(child.pk)))
    await until(lambda: state_of(parent.pk) == "completed")
    parent = await db.run(lambda: Task.objects.get(pk=parent.pk))
    assert words(parent) == "the wall: green (1)"
    assert EXECUTED["answered:green"] == 1
    await the_record_holds()


async def test_a_child_that_is_canceled_meanwhile_is_what_the_parent_finds(ada, cast, said):
    parent = await asked(ada, cast, said)
    await db.run(cancel.cancel_task, await db.run(child_of, parent))
    await until(lambda: state_of(parent.pk) == "failed")
    assert words(await db.run(lambda: Task.objects.get(pk=parent.pk))) == "Asking was stopped."


async def test_the_sweep_finds_a_parent_that_nobody_told(ada, cast, said, monkeypatch):
    parent = await asked(ada, cast, said)
    child = await db.run(child_of, parent)
    await until(lambda: not current_worker()._active)
    await db.run(Context.objects.filter(pk=child.context_id).update, is_watched=False)
    await ended(await sent(ada.principal, cast["asking"], said("green", taskId=str(child.pk))))
    await until(lambda: state_of(child.pk) == "completed")
    assert await db.run(state_of, parent.pk) == TaskState.INPUT_REQUIRED
    await db.run(jobs.sweep)
    await until(lambda: state_of(parent.pk) == "completed")


async def test_a_suspension_of_an_earlier_question_moves_nothing(ada, cast, said):
    """A task with its own question ignores an earlier turn's child."""
    parent = await asked(ada, cast, said)
    child = await db.run(child_of, parent)

    def ask_itself():
        Task.objects.filter(pk=parent.pk).update(slot={"name": "own"})
        Task.objects.filter(pk=child.pk).update(state=TaskState.COMPLETED)
        Suspension.objects.update_or_create(task_id=parent.pk, defaults={"child": child, "asked_at": child.status_at})
        runs = Run.objects.filter(task=parent.pk).count()
        assert delegation.resume_suspended(models.Q(task=parent.pk)) == 0
        assert Run.objects.filter(task=parent.pk).count() == runs
        assert not Suspension.objects.filter(task=parent.pk).exists()

    await until(lambda: not Run.objects.unfinished().exists())
    await db.run(ask_itself)


async def test_a_cancel_reaches_children_that_ask(ada, cast, said):
    parent = await asked(ada, cast, said)
    await db.run(cancel.cancel_by_id, ada.principal, cast["caller"], str(parent.pk))
    child = await db.run(child_of, parent)
    assert child.state == "canceled"
    await db.run(jobs.sweep)
    assert not await db.run(Suspension.objects.exists)


async def test_a_handler_that_swallows_the_suspension_asks_all_the_same(ada, cast, said):
    parent = await done(ada.principal, cast["swallowing"], said())
    assert (parent.state, words(parent)) == (TaskState.INPUT_REQUIRED, "Which colour for swallowed?")
    states = await db.run(lambda: list(Artifact.objects.filter(task=parent).values_list("state", flat=True)))
    assert states == [Artifact.State.DISCARDED], "the turn will be taken again, and will make it again"
    parent = await ended(await sent(ada.principal, cast["swallowing"], said("blue", taskId=str(parent.pk))))
    assert (parent.state, words(parent)) == ("completed", "swallowed: blue")
    states = await db.run(lambda: list(Artifact.objects.filter(task=parent).values_list("state", flat=True)))
    assert sorted(states) == ["delivered", "delivered", "discarded"], "the draft and the answer, once"
    await the_record_holds()


async def test_a_message_that_waits_already_is_the_answer(ada, cast, said):
    """A message sent during the work is the next turn, and so the answer."""
    receipt = await sent(ada.principal, cast["caller"], said("gated: a\nasking: the door"))
    await until(lambda: "gated:a" in EXECUTED)
    await until(lambda: state_of(receipt.task) == TaskState.INPUT_REQUIRED)
    await sent(ada.principal, cast["caller"], said("blue", taskId=str(receipt.task)))
    await until(lambda: "answered:blue" in EXECUTED)
    GATES["a"].set()
    parent = await ended(receipt)
    assert words(parent) == "a | the door: blue (1)"


async def test_answer_and_child_at_once_make_one_turn(ada, cast, said):
    parent = await asked(ada, cast, said)
    child = await db.run(child_of, parent)
    await asyncio.gather(
        *(
            db.run(resume, parent.pk, because="test"),
            db.run(resume, parent.pk, because="test"),
            sent(ada.principal, cast["asking"], said("green", taskId=str(child.pk))),
        )
    )
    await until(lambda: state_of(parent.pk) == "completed")
    assert EXECUTED["answered:green"] == 1
    await the_record_holds()


async def test_a_message_that_waits_already_is_no_credential(ada, cast, said):
    """Credentials come by link only, so the parent still asks."""
    receipt = await sent(ada.principal, cast["following"], said("a"))
    await until(lambda: "gated:a" in EXECUTED)
    await sent(ada.principal, cast["following"], said("be quick", taskId=str(receipt.task)))
    GATES["a"].set()
    parent = await ended(receipt, within=8)
    assert (parent.state, parent.slot["service"]) == (TaskState.AUTH_REQUIRED, "safe")
    assert EXECUTED["keyed:the safe"] == 1
    await the_record_holds()


async def asked_again_unheard(parent, ada, cast, said):
    """The child asks again, and the process died before it told the parent."""
    child = await db.run(child_of, parent, "askingtwice")
    await until(lambda: not current_worker()._active)
    await db.run(Context.objects.filter(pk=child.context_id).update, is_watched=False)
    await sent(ada.principal, cast["askingtwice"], said("one", taskId=str(child.pk)))
    await until(lambda: (Task.objects.get(pk=child.pk).slot or {}).get("name") == "second")


async def test_the_sweep_finds_a_parent_whose_child_asks_something_else_by_now(ada, cast, said):
    parent = await asked(ada, cast, said, "askingtwice: it")
    await asked_again_unheard(parent, ada, cast, said)
    await db.run(jobs.sweep)
    question = lambda: Task.objects.get(pk=parent.pk)  # noqa: E731
    await until(lambda: (question().slot or {}).get("name") == "second", within=5)
    parent = await answered(ada, cast, said, await db.run(question), "two")
    assert words(parent) == "one, two (1)"
    await the_record_holds()


async def test_an_answer_to_an_earlier_question_is_none_to_the_childs_next(ada, cast, said):
    parent = await asked(ada, cast, said, "askingtwice: it")
    await asked_again_unheard(parent, ada, cast, said)
    parent = await answered(ada, cast, said, parent, "late")
    assert (parent.state, words(parent)) == (TaskState.INPUT_REQUIRED, "The second?")
    parent = await answered(ada, cast, said, parent, "two")
    assert words(parent) == "one, two (1)"


async def test_a_child_that_is_cleared_takes_its_parent_along(ada, cast, said):
    """Nobody could answer its question."""
    parent = await asked(ada, cast, said)
    child = await db.run(child_of, parent)
    await until(lambda: not current_worker()._active)
    await db.run(deletion.delete_context, ada.principal, cast["asking"], child.context.context_id)
    await db.run(jobs.sweep)
    await until(lambda: state_of(parent.pk) == "failed", within=5)
    parent = await db.run(lambda: Task.objects.get(pk=parent.pk))
    assert "its conversation was cleared" in words(parent)
    await the_record_holds()
