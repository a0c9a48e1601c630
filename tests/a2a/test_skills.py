"""Over A2A a skill is named in a message's metadata; what is unclear or declined comes back as a message."""

from contextlib import aclosing

import pytest

import bridge
from apps.agents.registration import register_hosted
from tests.a2a.calling import message, text_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def office(ada_at, worker):
    await bridge.run(register_hosted, "office", "tests.runtime.skilled:Office")
    return ada_at("office")


async def test_the_named_skill_takes_the_task(office):
    answer = await office.send(message("book", metadata={"skillId": "advise"}))
    assert text_of(answer.result["task"]["status"]["message"]) == "advise: book"


async def test_a_question_which_skill_is_a_message(office):
    answer = await office.send(message("hello"))
    assert text_of(answer.result["message"]).startswith("Which skill do you want?")
    listed = await office.call("ListTasks", {})
    assert listed.result["tasks"] == []


async def test_a_stream_is_that_one_message(office):
    async with aclosing(office.stream("SendStreamingMessage", {"message": message("hello")})) as events:
        found = [event async for _, event in events]
    assert [list(event) for event in found] == [["message"]]


async def test_the_metadata_of_an_outcome_is_that_of_its_message(ada_at, worker):
    await bridge.run(register_hosted, "form", "tests.runtime.forms:function")
    answer = await ada_at("form").send(message("state"))
    status = answer.result["task"]["status"]
    assert status["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert status["message"]["metadata"] == {"prompt": "which?", "service": "test", "agent": "form"}
