"""A function backed by a language model returns a typed value or a reason."""

import asyncio
from enum import Enum

import pytest
from pydantic import BaseModel

from agentkit import AgentFailure, Message, SyncTaskContext, TaskContext, Usage, testing
from agentkit.llm import LlmFunction
from tests.llm.endpoint import Endpoint, calls, says


class Weather(BaseModel):
    city: str
    degrees: int


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


ROME = {"city": "Rome", "degrees": 20}
weather = LlmFunction("Say what the weather is.", Weather)


async def test_the_answer_is_a_value_of_the_type(endpoint: Endpoint):
    endpoint.replies = [calls(("final_result", ROME))]
    assert await weather(None, "How is it in Rome?") == Weather(city="Rome", degrees=20)
    assert endpoint.said() == [("system", "Say what the weather is."), ("user", "How is it in Rome?")]
    for output, answer in ((list[str], ["a", "b"]), (int, 7), (Mood, "bad"), (dict[str, int], {"a": 1})):
        endpoint.replies = [calls(("final_result", {"response": answer}))]
        value = await LlmFunction("Answer.", output)(None, "x")
        assert value == (Mood.BAD if output is Mood else answer), output
    endpoint.replies = [says("It ", "rains.")]
    assert await LlmFunction("Answer.")(None, "x") == "It rains."


async def test_an_answer_that_does_not_fit_is_asked_for_again_with_what_is_wrong(endpoint: Endpoint):
    endpoint.replies = [
        calls(("final_result", {"city": "Rome", "degrees": "warm"})),
        calls(("final_result", "{no json")),
        calls(("final_result", ROME)),
    ]
    assert await weather(None, "x") == Weather(city="Rome", degrees=20)
    role, told = endpoint.said(1)[-1]
    assert role == "tool"
    assert "degrees" in told
    assert "valid integer" in told


async def test_after_some_tries_it_fails_in_one_sentence(endpoint: Endpoint):
    endpoint.replies = [says("I would rather talk.")] * 4
    with pytest.raises(AgentFailure) as failed:
        await LlmFunction("Answer.", Weather, retries=1)(None, "x")
    assert str(failed.value) == "The language model's answer could not be used. Try again, or choose another model."
    assert failed.value.code == "model_unfit"
    assert "Exceeded maximum output retries (1)" in failed.value.detail
    assert len(endpoint.requests) == 2


async def test_in_a_handler_it_is_about_the_conversation_and_its_usage_is_told(endpoint: Endpoint):
    async def handler(task: TaskContext) -> dict:
        return (await weather(task)).model_dump()

    endpoint.replies = [calls(("final_result", {"city": "Rome"})), calls(("final_result", ROME))]
    earlier = Message.from_wire({"messageId": "1", "role": "ROLE_AGENT", "parts": [{"text": "Where?"}]})
    run = await testing.run(handler, "In Rome", history=[earlier])
    assert run.artifacts[0].parts == [{"data": ROME}]
    assert endpoint.said(0)[1:] == [("assistant", "Where?"), ("user", "In Rome")]
    assert run.emissions == [Usage("test-model", 2, 40, 10)]


def test_a_handler_in_a_thread_and_a_script_without_an_event_loop_call_it_too(endpoint: Endpoint):
    def handler(task: SyncTaskContext) -> dict:
        return weather.sync(task).model_dump()

    endpoint.replies = [calls(("final_result", ROME))] * 2
    run = asyncio.run(testing.run(handler, "x"))
    assert run.artifacts[0].parts == [{"data": ROME}]
    assert run.emissions == [Usage("test-model", 1, 20, 5)]
    assert weather.sync(None, "x").city == "Rome"


async def test_settings_and_the_name_of_another_model_go_with_the_request(endpoint: Endpoint):
    endpoint.replies = [says("x")]
    await LlmFunction("Answer.", model="other-model", settings={"temperature": 0.5, "max_tokens": 7})(None, "x")
    (request,) = endpoint.requests
    assert (request["model"], request["temperature"]) == ("other-model", 0.5)
    assert 7 in (request.get("max_tokens"), request.get("max_completion_tokens"))
