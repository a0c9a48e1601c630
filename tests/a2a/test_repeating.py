"""A known sender's repeated message gets the same answer and runs once."""

import asyncio

import pytest

import db
from apps.record.execution import Run
from apps.record.models import Message, Task
from tests.a2a.agents import Greeting
from tests.a2a.calling import message

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("repetitions meet in the database")]


async def test_the_same_message_sent_at_once_runs_once_and_every_sender_waits_for_it(worker, ada_at, echo):
    same = message("hi")
    answers = await asyncio.gather(*(ada_at("echo").send(same) for _ in range(5)))
    tasks = [answer.result["task"] for answer in answers]
    assert all(task == tasks[0] for task in tasks)
    assert tasks[0]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (await ada_at("echo").send(same)).result["task"] == tasks[0]
    assert await db.run(Run.objects.count) == 1


async def test_a_repeated_message_waits_for_the_task_too(worker, ada_at, countdown):
    same = message("10")
    started = (await ada_at("countdown").send(same, returnImmediately=True)).result["task"]
    ended = (await ada_at("countdown").send(same)).result["task"]
    assert started["id"] == ended["id"]
    assert ended["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_repeated_answer_changes_nothing(worker, ada_at, asking):
    task = (await ada_at("asking").send(message("hi"))).result["task"]
    same = message("blue", taskId=task["id"])
    first, second = [(await ada_at("asking").send(same)).result["task"] for _ in range(2)]
    assert first == second
    assert len(first["history"]) == 4


async def test_the_same_id_with_another_body_is_refused_and_is_another_senders_to_use(ada_at, bob_at, echo):
    first = await ada_at("echo").send(message("hi", messageId="one"), returnImmediately=True)
    answer = await ada_at("echo").send(message("ho", messageId="one"))
    assert (answer.code, answer.fields) == (-32602, ["messageId"])
    assert await db.run(Task.objects.count) == 1
    bobs = await bob_at("echo").send(message("hi", messageId="one"), returnImmediately=True)
    assert first.result["task"]["id"] != bobs.result["task"]["id"]


async def test_the_same_message_gets_the_same_answer(ada_at, greeting):
    same, before = message("hi"), Greeting.answers
    answers = await asyncio.gather(*(ada_at("greeting").send(same) for _ in range(3)))
    said = [answer.result["message"] for answer in answers]
    assert said[0] == said[1] == said[2]
    assert before + 1 == Greeting.answers
    assert await db.run(Message.objects.count) == 2


@pytest.mark.parametrize(("text", "code"), [("fail", "agent_error"), ("talk nonsense", "invalid_agent_response")])
async def test_an_agent_that_fails_answers_with_an_error_message_once(ada_at, greeting, text, code):
    same, before = message(text), Greeting.answers
    first, again = [(await ada_at("greeting").send(same)).result["message"] for _ in range(2)]
    assert first == again
    assert first["metadata"]["error"] == {"code": code}
    assert "secret" not in str(first)
    assert Greeting.answers - before <= 1
    assert await db.run(Message.objects.count) == 2, "the question and the answer are in the record"
