"""Wherever a step is answered, the plan's session has the question and the answer, in order, and nothing untrue."""

from __future__ import annotations

import asyncio
import json
import uuid

import pytest
from django.test import AsyncClient

from apps.accounts.models import ApiKey
from apps.engine import delegation
from apps.engine.send import accept_and_publish
from apps.plans import jobs
from apps.plans.models import GivenAnswer, PlanRun
from apps.record.content.parts import words_of
from apps.record.models import Event, Message, Task
from tests.plans.plan_agents import DONE
from tests.plans.playing import data, words

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("a plan and its steps are recorded in separate transactions"),
]

READING = {"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]}
LEFT = {"left": {"person": {"ask": "Read the left well.", "schema": READING}}}
BOTH = {**LEFT, "right": {"person": {"ask": "Read the right well.", "schema": READING}}}


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


async def from_a_page(child: Task, key: str, user) -> int:
    """On the run's page and in the inbox, by the form of the step's question; in the step's session as well."""
    browser = AsyncClient()
    await browser.aforce_login(user)
    form = {"answers": "1", "task": str(child.pk), "asked": str(child.status_event), "answer-value": "7"}
    answer = await browser.post(f"/sessions/{child.context_id}/messages", {**form, "message": str(uuid.uuid4())})
    return answer.status_code


async def from_the_client_api(child: Task, key: str, user) -> int:
    headers = {"authorization": f"Bearer {key}"}
    body = json.dumps({"data": {"value": 7}})
    answer = await AsyncClient().post(f"/api/v1/tasks/{child.pk}/answer", body, "application/json", headers=headers)
    return answer.status_code


async def by_a2a(child: Task, key: str, user) -> int:
    message = {"messageId": "m", "taskId": str(child.pk), "role": "ROLE_USER", "parts": [{"data": {"value": 7}}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}
    call["params"] = {"message": message, "configuration": {"returnImmediately": True}}
    headers = {"authorization": f"Bearer {key}", "a2a-version": "1.0"}
    answer = await AsyncClient().post("/a2a/person", json.dumps(call), "application/json", headers=headers)
    assert "result" in answer.json(), answer.json()
    return answer.status_code


@pytest.mark.parametrize("door", [from_a_page, from_the_client_api, by_a2a])
def test_an_answer_to_a_step_is_in_the_plans_session_whichever_way_it_came(play, door):
    task = play(LEFT)
    _, key = ApiKey.issue(play.ada, "test")
    assert asyncio.run(door(asking("left well"), key, play.ada)) < 300
    task = play.on(task.pk)
    assert said_in(task) == ["hello", "Read the left well.", {"value": 7}, "1 step done."]
    assert (task.state, unasked(task)) == ("completed", [])


def test_an_answer_in_the_plans_own_session_is_there_once(play):
    task = play.answer(play(LEFT), **data({"value": 7}))
    assert said_in(task) == ["hello", "Read the left well.", {"value": 7}, "1 step done."]
    assert (unasked(task), GivenAnswer.objects.count()) == ([], 0)


def test_each_of_several_questions_stands_before_its_answer_in_whichever_order_they_are_answered(play):
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


def test_a_question_that_is_answered_before_the_plan_could_ask_it_is_in_its_session_too(play):
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
    assert said_in(task)[-3:] == [words_of(question(other)), {"value": 2}, "2 steps done."]
    assert unasked(task) == []


def question(task: Task):
    asked = Event.objects.filter(task=task.pk, type="agent_status", payload__state="input-required").first()
    return asked.payload["message"]["parts"]


def test_an_answer_that_does_not_fit_and_the_next_one_are_both_there(play):
    task = play(LEFT)
    play.answer(asking("left well"), **data({"value": "much"}))
    play.answer(asking("Please answer again"), **data({"value": 3}))
    task = play.on(task.pk)
    again = next(one for one in said_in(task) if "Please answer again." in str(one))
    asked = ["Read the left well.", {"value": "much"}, again, {"value": 3}]
    assert said_in(task) == ["hello", *asked, "1 step done."]


def test_answers_reach_the_sessions_of_all_plans_around_a_step(play):
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


def test_an_answer_outlives_a_crash_before_it_is_in_the_plans_session(play, monkeypatch, settings):
    settings.SWEEP_SECONDS = 0
    task = play(BOTH)
    first = asking(words(task).partition("1 more")[0].strip())
    (second,) = Task.objects.filter(parent=task.pk).exclude(pk=first.pk).select_related("agent")
    monkeypatch.setattr(jobs, "tick_soon", lambda run: None)
    play.held.add("person")  # the answered step does not go on either
    accept_and_publish(play.ada.principal, second.agent, play.said(taskId=str(second.pk), **data({"value": 2})))
    PlanRun.objects.update(advanced_at=None)
    assert (GivenAnswer.objects.count(), jobs.sweep()) == (1, 1)
    task = play.on(task.pk)
    assert (said_in(task)[-1], GivenAnswer.objects.count()) == ({"value": 2}, 0)
    assert task.state == "input-required"


def test_what_an_agent_answers_in_a_persons_place_is_no_message_of_theirs(play):
    task = play({"colour": {"agent": "curious", "message": "it"}}, answering="knowing")
    assert said_in(task) == ["hello", "1 step done."]
    assert DONE["knowing"] == 1


def test_the_log_says_whose_question_an_answer_was(play):
    task = play(LEFT)
    child = asking("left well")
    play.answer(child, **data({"value": 7}))
    [answer] = Message.objects.filter(task=task.pk, role="user", metadata__has_key=delegation.ANSWERED_TASK)
    assert answer.metadata[delegation.ANSWERED_TASK] == str(child.pk)
