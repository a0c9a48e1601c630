"""The bridge calls a function again when its connection breaks; what was committed unheard is not done twice."""

import pytest

import bridge
from agentkit import Completed
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.conversations import intake, replay
from apps.conversations.models import Message, Run, Task
from apps.runtime import claims, sending
from tests.working import end, state_of, types_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("claims are SQL of each database's own")]


@pytest.fixture
def tried_twice(monkeypatch):
    """Everything that is left to the bridge is done, unheard, and then done again."""
    run = bridge.run

    async def twice(function, *args, **kwargs):
        await run(function, *args, **kwargs)
        return await run(function, *args, **kwargs)

    monkeypatch.setattr(bridge, "run", twice)


@pytest.fixture
def public(db):
    return register_hosted("open-echo", "apps.showcase.agents.echo:Echo", access=Agent.Access.PUBLIC)


async def test_a_message_of_nobody_known_opens_one_task(public, said, tried_twice):
    sent = await sending.send(ANONYMOUS, public, said())
    assert [task.pk async for task in Task.objects.all()] == [sent.task]
    assert await Message.objects.acount() == await Run.objects.acount() == 1


async def test_an_answer_of_nobody_known_becomes_one_turn(public, said, tried_twice):
    first = await sending.send(ANONYMOUS, public, said())
    answer = await sending.send(ANONYMOUS, public, said("more", taskId=str(first.task)))
    assert answer.task == first.task
    assert await Message.objects.acount() == 2


async def test_another_call_of_nobody_known_is_another_message(public, said):
    message = said()
    assert (await sending.send(ANONYMOUS, public, message)).task != (
        await sending.send(ANONYMOUS, public, message)
    ).task


def test_a_claim_that_is_tried_again_holds_what_it_took(ada, echo, said):
    sent = intake.accept(ada.principal, echo, said())
    first, again = [claims.claim(sent.run, "this very claim") for _ in range(2)]
    assert again.hold == first.hold
    assert again.attempt == 1
    assert types_of(sent.task) == ["user_message", "agent_status", "agent_start"]
    assert claims.claim(sent.run, "another") is None
    end(again, Completed("done"))
    assert state_of(sent.task) == "completed"
    assert claims.claim(sent.run, "this very claim") is None
    assert replay.differences(sent.context) == []
