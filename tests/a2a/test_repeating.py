"""A known sender that sends the same message twice gets the same answer, and nothing runs twice."""

import asyncio

import pytest

import bridge
from apps.conversations.models import Message, Run, Task
from tests.a2a.agents import Greeting
from tests.a2a.calling import message

pytestmark = pytest.mark.django_db(transaction=True)


async def test_the_same_message_gets_the_same_task(worker, ada_at, echo):
    same = message("hi")
    first, second = [(await ada_at("echo").send(same)).result["task"] for _ in range(2)]
    assert first == second
    assert await bridge.run(Run.objects.count) == 1


async def test_the_same_message_sent_at_once_runs_once_and_every_sender_waits_for_it(worker, ada_at, echo):
    same = message("hi")
    answers = await asyncio.gather(*(ada_at("echo").send(same) for _ in range(5)))
    tasks = [answer.result["task"] for answer in answers]
    assert all(task == tasks[0] for task in tasks)
    assert tasks[0]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert await bridge.run(Run.objects.count) == 1


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


async def test_the_same_id_with_another_body_is_refused(worker, ada_at, echo):
    await ada_at("echo").send(message("hi", messageId="one"))
    answer = await ada_at("echo").send(message("ho", messageId="one"))
    assert answer.code == -32602
    assert "messageId" in answer.fields[0]
    assert await bridge.run(Task.objects.count) == 1


async def test_two_senders_may_use_the_same_id(worker, ada_at, bob_at, echo):
    tasks = [(await at("echo").send(message("hi", messageId="one"))).result["task"]["id"] for at in (ada_at, bob_at)]
    assert tasks[0] != tasks[1]


async def test_the_same_message_gets_the_same_answer(ada_at, greeting):
    same, before = message("hi"), Greeting.answers
    answers = await asyncio.gather(*(ada_at("greeting").send(same) for _ in range(3)))
    said = [answer.result["message"] for answer in answers]
    assert said[0] == said[1] == said[2]
    assert before + 1 == Greeting.answers
    assert await bridge.run(Message.objects.count) == 2


async def test_an_answer_that_failed_may_be_asked_for_again(ada_at, greeting):
    same = message("fail")
    for _ in range(2):
        answer = await ada_at("greeting").send(same)
        assert answer.code == -32603
        assert "secret" not in str(answer.body)
    assert await bridge.run(Message.objects.count) == 0


async def test_an_answer_that_cannot_be_sent_is_an_invalid_agent_response(ada_at, greeting):
    answer = await ada_at("greeting").send(message("talk nonsense"))
    assert (answer.code, answer.reason) == (-32006, "INVALID_AGENT_RESPONSE")
    assert "secret" not in str(answer.body)
    assert await bridge.run(Message.objects.count) == 0
