"""Each of several questions at once is answered separately, once, in any order."""

import asyncio
import datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.engine.send import send
from apps.features.sessions import commands
from apps.plans.models import PlanRun, Step
from apps.plans.person import steps_asking_by, waiting_for, waiting_in_run
from apps.record.errors import AlreadyAnswered
from apps.record.execution import Suspension
from apps.record.models import Event, Message
from tests.plans.plan_agents import DONE
from tests.plans.playing import data, rows, words

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("of two answers at once one counts, by the database's locks"),
]

ONE_MORE = "1 more question waits besides this one"
READING = {"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]}
MEASURED = {
    "left": {"title": "Left well", "person": {"ask": "Read the left well.", "schema": READING}},
    "right": {"title": "Right well", "person": {"ask": "Read the right well.", "schema": READING}},
    "paint": {"agent": "curious", "message": "the plate"},
    "sum": {"agent": "loud", "message": "{{ steps.left.data.value + steps.right.data.value }} {{ steps.paint.text }}"},
}
LEFT = {"left": MEASURED["left"]}
BOTH = {key: MEASURED[key] for key in ("left", "right")}


def waiting(user):
    tasks = list(waiting_for(user.principal).select_related("agent", "context"))
    steps = steps_asking_by(user.principal, tasks)
    return {steps[task.pk].key if task.pk in steps else task.agent.slug: task for task in tasks}


def test_all_that_steps_ask_waits_at_once_and_is_answered_in_any_order(play, bob):
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


def test_the_plan_asks_one_says_how_many_wait_and_then_asks_the_next(play):
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


def test_of_two_who_answer_the_first_counts_and_the_other_is_told(play):
    task = play(LEFT)
    left = waiting(play.ada)["left"]

    async def answer_twice():
        said = [play.said(**data({"value": value}), taskId=str(left.pk)) for value in (1, 2)]
        both = [send(play.ada.principal, left.agent, one, question_index=left.status_event) for one in said]
        return await asyncio.gather(*both, return_exceptions=True)

    (refused,) = [one for one in asyncio.run(answer_twice()) if isinstance(one, Exception)]
    assert isinstance(refused, AlreadyAnswered)
    assert "already answered" in str(refused)
    assert play.on(task.pk).state == "completed"
    assert Message.objects.filter(task=left.pk, role="user").count() == 2
    with pytest.raises(AlreadyAnswered):
        play.answer(left, asked=left.status_event, **data({"value": 3}))


def test_an_answer_that_is_sent_again_is_taken_once(play):
    task = play(LEFT)
    left = waiting(play.ada)["left"]
    message = play.said(**data({"value": 1}), taskId=str(left.pk))

    async def answer():
        return await send(play.ada.principal, left.agent, message, question_index=left.status_event)

    first = asyncio.run(answer())
    assert play.on(task.pk).state == "completed"
    again = asyncio.run(answer())
    assert (again.repeated, again.index) == (True, first.index)


def test_an_answer_of_the_wrong_shape_is_another_question(play):
    task = play(MEASURED)
    right = waiting(play.ada)["right"]
    play.answer(right, asked=right.status_event, **data({"value": "much"}))
    again = waiting(play.ada)["right"]
    assert again.status_event > right.status_event
    with pytest.raises(AlreadyAnswered):
        play.answer(right, asked=right.status_event, **data({"value": 2}))
    assert "Please answer again." in words(again)
    play.answer(right, asked=again.status_event, **data({"value": 2}))
    assert rows(task, "key", "state")[2] == ("right", "done")


def test_a_reply_to_the_plan_that_comes_too_late_is_told_so(play):
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


def test_questions_of_plans_within_plans_are_there_once(play):
    play.plan(BOTH, slug="inner")
    task = play({"both": {"agent": "inner", "message": "go"}, "paint": MEASURED["paint"]})
    assert set(waiting(play.ada)) == {"left", "right", "paint"}
    assert Step.objects.get(run=task.pk, key="both").state == "asking"
    assert waiting_in_run(play.ada.principal, PlanRun.objects.get(pk=task.pk)).count() == 3
    for key, given in {"right": {"value": 2}, "left": {"value": 1}, "paint": {"colour": "red"}}.items():
        asked = waiting(play.ada)[key]
        play.answer(asked, asked=asked.status_event, **data(given))
    assert play.on(task.pk).state == "completed"


def test_what_an_agent_answers_nobody_else_is_asked(play):
    task = play({"ask": MEASURED["paint"], **LEFT}, answering="patient")
    assert ("ask", "answering", "running") in rows(task, "key", "phase", "state")
    assert set(waiting(play.ada)) == {"left"}
    play.release(task)
    assert ("ask", "done") in rows(task, "key", "state")


def test_what_is_put_away_does_not_wait(play):
    task = play(LEFT)
    assert set(waiting(play.ada)) == {"left"}
    commands.archive_session(play.ada.principal, task.context_id)
    assert not waiting(play.ada)


def test_what_is_asked_costs_as_many_queries_however_much_it_is(play):
    agent = play.plan({"ask": {"agent": "curious", "message": "{{ item }}", "for_each": "inputs.text | list"}})
    costs = []
    for text in ("a", "abcde"):
        play.send(agent, text)
        with CaptureQueriesContext(connection) as made:
            waiting(play.ada)
        costs.append(len(made))
    assert waiting_for(play.ada.principal).count() == 6
    assert costs[0] == costs[1]
