"""A message gets a skill, a question or a refusal."""

import asyncio

import pytest

import db
from agentkit import SkillChosen
from apps.accounts.principals import ANONYMOUS
from apps.agents.registration import register_hosted
from apps.engine import accept, send
from apps.record import projection, wire
from apps.record.execution import Run
from apps.record.models import Event, Message, Task
from tests.engine.skilled import Forgetful
from tests.working import begin, let_the_lease_run_out, say, types_of

pytestmark = pytest.mark.django_db(transaction=True)


async def talk(ada, agent, message, **options):
    sent = await send.send(ada.principal, agent, message, **options)
    assert sent.task is not None, sent.answer
    task = await send.wait_until_settled(sent.context, sent.task, sent.index, wire.load_task)
    assert await db.run(projection.differences, sent.context) == []
    return sent, task


def spoken(task):
    return task["history"][-1]["parts"][0]["text"]


@pytest.fixture
async def office(agent_at):
    return await agent_at("tests.engine.skilled:Office")


async def test_the_skill_is_chosen_once_and_kept_over_all_turns(ada, office, worker, said):
    sent, asked = await talk(ada, office, said("I want to book a trip"))
    assert (asked["status"]["state"], spoken(asked)) == ("TASK_STATE_INPUT_REQUIRED", "Where to?")
    task_id = str(sent.task)
    _, again = await talk(ada, office, said(taskId=task_id, parts=[{"data": {"to": "Rome", "people": 0}}]))
    assert spoken(again) == "People: Input should be greater than or equal to 1."
    _, sure = await talk(ada, office, said(taskId=task_id, parts=[{"data": {"to": "Rome", "people": 2}}]))
    assert spoken(sure) == "Sure?"
    _, done = await talk(ada, office, said("some advice: yes", taskId=task_id))
    assert spoken(done) == "book: 2 to Rome"
    row = await db.run(Task.objects.get, pk=sent.task)
    assert row.metadata == {"skill": "book"}
    snapshots = await db.run(lambda: [run.input["skill"] for run in Run.objects.all()])
    assert snapshots == ["book"] * 4


async def test_a_question_and_a_refusal_are_messages_without_a_task(ada, agent_at, said):
    office, strict = [await agent_at(f"tests.engine.skilled:{name}", access="public") for name in ("Office", "Strict")]
    told = [
        (office, {}, "What would you like?\n\n- **Book**: ", "clarify"),
        (office, {"metadata": {"skillId": "fly"}}, "There is no skill 'fly' here.", "clarify"),
        (strict, {}, "Only trips and advice.", "rejected"),
    ]
    for agent, fields, sentence, code in told:
        for who in (ada.principal, ANONYMOUS):
            message = said("hello", **fields)
            sent = await send.send(who, agent, message)
            assert sent.task is None
            assert sent.answer["parts"][0]["text"].startswith(sentence)
            assert sent.answer["metadata"]["error"] == {"code": code}
            kinds = await db.run(lambda sent=sent: list(Event.objects.filter(context=sent.context).order_by("index")))
            assert [event.type for event in kinds] == ["user_message", "agent_message"]
            assert await db.run(projection.differences, sent.context) == []
            if who is not ANONYMOUS:
                assert (await send.send(who, agent, message)).answer == sent.answer
    assert await db.run(Task.objects.count) == await db.run(Run.objects.count) == 0
    assert await db.run(Message.objects.count) == 2 * 2 * len(told)


async def test_where_a_task_there_must_be_the_task_asks_which_skill_or_is_rejected(ada, agent_at, office, worker, said):
    sent, asked = await talk(ada, office, said("Do it on Sunday"), require_task=True)
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert spoken(asked).startswith("What would you like?")
    assert asked["status"]["message"]["metadata"]["error"] == {"code": "clarify"}
    _, done = await talk(ada, office, said("Advise", taskId=str(sent.task)))
    assert spoken(done) == "advise: Do it on Sunday"
    row = await db.run(Task.objects.get, pk=sent.task)
    assert row.metadata == {"skill": "advise"}
    assert (await db.run(types_of, sent.task)).count("agent_message") == 0
    strict = await agent_at("tests.engine.skilled:Strict")
    _, task = await talk(ada, strict, said("hello"), require_task=True)
    assert (task["status"]["state"], spoken(task)) == ("TASK_STATE_REJECTED", "Only trips and advice.")


async def test_a_skill_that_the_turn_found_is_kept_by_the_turns_after_it(ada, office, worker, said):
    sent, asked = await talk(ada, office, said("book a trip"), require_task=True)
    assert spoken(asked) == "Where to?"
    assert (await db.run(Task.objects.get, pk=sent.task)).metadata == {"skill": "book"}
    _, sure = await talk(ada, office, said(taskId=str(sent.task), parts=[{"data": {"to": "Rome", "people": 2}}]))
    assert spoken(sure) == "Sure?"


def test_a_second_attempt_goes_on_with_the_skill_that_the_first_found(ada, said):
    office = register_hosted("office", "tests.engine.skilled:Office")
    receipt = accept.accept(ada.principal, office, said("hm"))
    held = begin(receipt.run)
    say(held, SkillChosen("advise"))
    let_the_lease_run_out(held.lease)
    again = begin(receipt.run)
    assert again.attempt == 2
    assert again.task.metadata == {"skill": "advise"}
    assert projection.differences(receipt.context) == []


async def test_a_choice_that_fails_is_told_by_the_task(ada, agent_at, worker, said):
    failing = await agent_at("tests.engine.skilled:Failing")
    sent, task = await talk(ada, failing, said("hello"))
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "boom" not in str(task)
    run = await db.run(Run.objects.get, task=sent.task)
    assert "boom" in run.error["message"]


async def test_a_message_that_is_sent_again_leads_where_it_led_however_the_agent_would_decide(
    ada, agent_at, worker, said
):
    Forgetful.asked = 0
    forgetful = await agent_at("tests.engine.skilled:Forgetful")
    started, unclear = said("first"), said("second")
    sent, _ = await talk(ada, forgetful, started)
    answered = await send.send(ada.principal, forgetful, unclear)
    assert answered.answer is not None
    for _ in range(2):
        assert (await send.send(ada.principal, forgetful, started)).task == sent.task
        assert (await send.send(ada.principal, forgetful, unclear)).answer == answered.answer
    assert Forgetful.asked == 2


async def test_many_unclear_messages_at_once_are_each_answered_once(ada, office, said):
    message = said("hello")
    sent = await asyncio.gather(*(send.send(ada.principal, office, message) for _ in range(5)))
    assert len({one.answer["messageId"] for one in sent}) == 1


async def test_what_an_agent_keeps_in_a_slot_is_its_own(ada, agent_at, worker, said):
    """A slot's value returns to its agent and is sent nowhere."""
    booking = await agent_at("tests.engine.skilled:Booking")
    sent, asked = await talk(ada, booking, said("hello"))
    status = await db.run(
        lambda: Event.objects.select_related("context").filter(task=sent.task, type="agent_status").last()
    )
    assert status.payload["slot"]["value"] == {"to": "Rome", "people": 2}
    assert "Rome" not in str(wire.stream_response(status, status.context))
    assert "Rome" not in str(asked)
    _, done = await talk(ada, booking, said("yes", taskId=str(sent.task)))
    assert spoken(done) == "2 to Rome, yes"


def test_the_skill_is_recorded_with_the_task_it_opens(ada, echo, said):
    receipt = accept.accept(ada.principal, echo, said(), skill="echo")
    assert Task.objects.get(pk=receipt.task).metadata == {"skill": "echo"}
    assert projection.differences(receipt.context) == []
