"""Questions at once are answered separately, once, in any order; a plan's session has each with its answer."""

from __future__ import annotations

import asyncio
import datetime

import pytest

from apps.conversations.sessions import commands
from apps.engine.send import accept_and_publish, send
from apps.engine.turns import delegation
from apps.plans import jobs
from apps.plans.models import GivenAnswer, PlanRun, Step
from apps.plans.person import steps_asking_by, waiting_for, waiting_in_run
from apps.record.content.parts import words_of
from apps.record.errors import AlreadyAnswered
from apps.record.execution import Suspension
from apps.record.models import Event, Message, Task
from tests.plans.plan_agents import DONE
from tests.plans.playing import data, rows, words

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("a plan and its steps are recorded in separate transactions, and of two answers one counts"),
]

READING = {"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]}
LEFT = {"left": {"title": "Left well", "person": {"ask": "Read the left well.", "schema": READING}}}
BOTH = {**LEFT, "right": {"title": "Right well", "person": {"ask": "Read the right well.", "schema": READING}}}


def asking(text: str) -> Task:
    """The task of the person's step that asks this."""
    waits = Task.objects.filter(state="input-required", agent__slug="person").select_related("agent", "context")
    return next(task for task in waits if text in words(task))


def said_in(task: Task) -> list[object]:
    """What a reader of the session sees said: texts, and data of answers. Without the count of other questions."""
    found: list[object] = []
    for message in Message.objects.filter(task=task.pk).order_by("index"):
        values = [part["data"] for part in message.parts if "data" in part]
        text = words_of([part for part in message.parts if "besides this one" not in part.get("text", "")])
        found += [text] if text else []
        found += values
    return found


def unasked(task: Task) -> list[str]:
    """Progress that the plan reported instead of taking an answer."""
    reported = Event.objects.filter(task=task.pk, payload__has_key="progress").order_by("index")
    told = [words_of(event.payload["message"]["parts"]) for event in reported]
    return [text for text in told if "done" not in text]


@pytest.mark.parametrize("to_the_plan", [False, True])
def test_an_answer_is_in_the_plans_session_once(play, to_the_plan):
    task = play(LEFT)
    child = asking("left well")
    play.answer(task if to_the_plan else child, **data({"value": 7}))
    task = play.on(task.pk)
    assert said_in(task) == ["hello", "Read the left well.", {"value": 7}, "1 step done."]
    assert (task.state, unasked(task), GivenAnswer.objects.count()) == ("completed", [], 0)
    told = Message.objects.filter(task=task.pk, role="user").order_by("index").last().metadata
    assert told.get(delegation.ANSWERED_TASK) == (None if to_the_plan else str(child.pk))


def test_each_question_stands_before_its_answer(play):
    task = play(BOTH)
    first = words(task).partition(" well.")[0].rpartition(" ")[2]
    (second,) = {"left", "right"} - {first}
    play.answer(asking(f"{second} well"), **data({"value": 2}))
    assert play.on(task.pk).slot["child"] == str(asking(f"{first} well").pk), "its own question stays"
    play.answer(asking(f"{first} well"), **data({"value": 1}))
    task = play.on(task.pk)
    shown = ["hello", f"Read the {first} well.", f"Read the {second} well.", {"value": 2}, {"value": 1}]
    assert said_in(task) == [*shown, "2 steps done."]
    assert unasked(task) == []


def test_an_early_answers_question_is_shown(play):
    play.held.add("plan")
    task = play(BOTH)
    play.held.discard("plan")
    task = play.on(task.pk)
    asked = asking(words(task).partition("1 more")[0].strip())
    play.held.add("plan")  # its turn waits: it works, and asks nothing now
    play.answer(task, **data({"value": 1}))
    (other,) = Task.objects.filter(state="input-required", agent__slug="person").exclude(pk=asked.pk)
    play.answer(Task.objects.select_related("agent").get(pk=other.pk), **data({"value": 2}))
    task = play.release(task)
    assert task.state == "completed"
    asked = Event.objects.filter(task=other.pk, type="agent_status", payload__state="input-required").first()
    assert said_in(task)[-3:] == [words_of(asked.payload["message"]["parts"]), {"value": 2}, "2 steps done."]
    assert unasked(task) == []


def test_unfit_and_later_answers_are_both_there(play):
    task = play(LEFT)
    play.answer(asking("left well"), **data({"value": "much"}))
    play.answer(asking("Please answer again"), **data({"value": 3}))
    task = play.on(task.pk)
    again = next(one for one in said_in(task) if "Please answer again." in str(one))
    asked = ["Read the left well.", {"value": "much"}, again, {"value": 3}]
    assert said_in(task) == ["hello", *asked, "1 step done."]


def test_answers_reach_all_plans_around_a_step(play):
    play.plan(BOTH, slug="inner")
    task = play({"inner": {"agent": "inner", "message": "go"}})
    for number, side in enumerate(("right", "left")):
        play.answer(asking(f"{side} well"), **data({"value": number}))
    task = play.on(task.pk)
    assert task.state == "completed"
    for plan in (task, Task.objects.get(parent=task.pk, agent__slug="inner")):
        said = said_in(plan)
        for number, side in enumerate(("right", "left")):
            assert said.count({"value": number}) == said.count(f"Read the {side} well.") == 1, said
            assert said.index(f"Read the {side} well.") < said.index({"value": number})
        assert unasked(plan) == []


def test_an_answer_outlives_a_crash(play, monkeypatch, settings):
    settings.SWEEP_SECONDS = 0
    task = play(BOTH)
    first = asking(words(task).partition("1 more")[0].strip())
    (second,) = Task.objects.filter(parent=task.pk).exclude(pk=first.pk).select_related("agent")
    monkeypatch.setattr(jobs, "tick_soon", lambda run: None)
    play.held.add("person")  # the answered step does not go on either
    accept_and_publish(play.ada.principal, second.agent, play.said(taskId=str(second.pk), **data({"value": 2})))
    PlanRun.objects.update(advanced_at=None)
    assert (GivenAnswer.objects.count(), jobs.RUNS_TO_ADVANCE.sweep()) == (1, 1)
    task = play.on(task.pk)
    assert (said_in(task)[-1], GivenAnswer.objects.count()) == ({"value": 2}, 0)
    assert task.state == "input-required"


# Several questions at once

ONE_MORE = "1 more question waits besides this one"
MEASURED = {
    **BOTH,
    "paint": {"agent": "curious", "message": "the plate"},
    "sum": {"agent": "loud", "message": "{{ steps.left.data.value + steps.right.data.value }} {{ steps.paint.text }}"},
}


def waiting(user):
    tasks = list(waiting_for(user.principal).select_related("agent", "context"))
    steps = steps_asking_by(user.principal, tasks)
    return {steps[task.pk].key if task.pk in steps else task.agent.slug: task for task in tasks}


def test_questions_at_once_are_answered_in_any_order(play, bob):
    task = play(MEASURED)
    found = waiting(play.ada)
    assert set(found) == {"left", "right", "paint"}
    assert not waiting(bob)
    run = PlanRun.objects.get()
    assert (waiting_in_run(play.ada.principal, run).count(), waiting_in_run(bob.principal, run).count()) == (3, 0)
    for key, given in (("paint", {"colour": "red"}), ("right", {"value": 2})):
        play.answer(found[key], asked=found.pop(key).status_event, **data(given))
        still = waiting(play.ada)
        assert {one: asked.status_event for one, asked in still.items()} == {
            one: asked.status_event for one, asked in found.items()
        }
    play.answer(found["left"], **data({"value": 1}))
    assert play.on(task.pk).state == "completed"
    assert (DONE["loud:3 It is red."], waiting(play.ada)) == (1, {})


def test_the_plan_asks_one_after_the_other(play):
    task = play(BOTH)
    found = waiting(play.ada)
    messages = Message.objects.filter(task=task, role="agent").order_by("index")
    assert ONE_MORE in " ".join(part["text"] for message in messages for part in message.parts)
    first = next(key for key, child in found.items() if str(child.pk) == task.slot["child"])
    assert f"Read the {first} well." in words(task)
    task = play.answer(task, **data({"value": 1}))
    (second,) = {"left", "right"} - {first}
    assert (task.state, words(task)) == ("input-required", f"Read the {second} well.")
    assert Step.objects.get(key=first).state == "done"
    assert play.answer(task, **data({"value": 2})).state == "completed"


def test_of_two_answers_the_first_counts(play):
    task = play(LEFT)
    left = waiting(play.ada)["left"]

    both = [play.said(**data({"value": value}), taskId=str(left.pk)) for value in (1, 2)]

    async def answer_twice():
        sent = [send(play.ada.principal, left.agent, one, question_index=left.status_event) for one in both]
        return await asyncio.gather(*sent, return_exceptions=True)

    answers = asyncio.run(answer_twice())
    (refused,) = [one for one in answers if isinstance(one, Exception)]
    assert isinstance(refused, AlreadyAnswered)
    assert "already answered" in str(refused)
    assert play.on(task.pk).state == "completed"
    assert Message.objects.filter(task=left.pk, role="user").count() == 2
    taken = next(said for said, told in zip(both, answers, strict=True) if not isinstance(told, Exception))
    again = asyncio.run(send(play.ada.principal, left.agent, taken, question_index=left.status_event))
    assert again.repeated, "the same answer is taken once"
    with pytest.raises(AlreadyAnswered):
        play.answer(left, asked=left.status_event, **data({"value": 3}))


def test_a_late_reply_is_told_so(play):
    task = play(LEFT)
    # The step asks another question by now, and the plan has not heard of it yet.
    earlier = waiting(play.ada)["left"].status_at - datetime.timedelta(seconds=1)
    Suspension.objects.filter(task=task.pk).update(asked_at=earlier)
    task = play.answer(task, **data({"value": 1}))
    assert (task.state, words(task)) == ("input-required", "Read the left well.")
    said_by_it = Event.objects.filter(task=task.pk, type="agent_status").order_by("index")
    payloads = list(said_by_it.values_list("payload", flat=True))
    assert "already answered" in str([payload for payload in payloads if "progress" in payload])
    assert play.answer(task, **data({"value": 2})).state == "completed"


def test_what_an_agent_answers_no_person_is_asked(play):
    task = play({"ask": MEASURED["paint"], **LEFT}, answering="patient")
    assert ("ask", "answering", "running") in rows(task, "key", "phase", "state")
    assert set(waiting(play.ada)) == {"left"}
    play.release(task)
    assert ("ask", "done") in rows(task, "key", "state")
    commands.archive_session(play.ada.principal, task.context_id)
    assert not waiting(play.ada), "what is put away does not wait"
