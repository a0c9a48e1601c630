"""What a client asks of a model's agent: tools of its own, a form of the answer, settings."""

import json
from typing import Any

import pytest

from agentkit import CallClient, Message, SkillHandler, TaskContext, testing, tool
from agentkit.llm import LlmWorker
from tests.model_agents.agents import double, handler_of
from tests.model_agents.endpoint import Endpoint, calls, says

TOOL = {"name": "weather", "description": "The weather.", "parameters": {"type": "object", "properties": {"city": {}}}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def said(text: str, **wishes: Any) -> Message:
    return Message.from_wire({"role": "ROLE_USER", "parts": [{"text": text}], "metadata": {"client": wishes}})


def given(*results: Any, **wishes: Any) -> dict[str, Any]:
    data = {"toolResults": [{"callId": call["id"], "result": result} for call, result in results]}
    return {"role": "ROLE_USER", "parts": [{"data": data}], "metadata": {"client": wishes} if wishes else {}}


def handler(*tools: Any, **options: Any):
    return handler_of(LlmWorker("Help.", [double, *tools], **options))


async def test_a_clients_tool_waits_for_its_result(endpoint: Endpoint):
    endpoint.replies = [calls(("weather", {"city": "Rome"})), says("20°.")]
    asked = await testing.run(handler(), said("Weather?", tools=[TOOL], mustCall=["weather"]))
    assert isinstance(asked.outcome, CallClient)
    [call] = asked.outcome.calls
    assert (call["name"], call["arguments"]) == ("weather", {"city": "Rome"})
    run = await asked.answer(given((call, {"degrees": 20}), tools=[TOOL]))
    assert run.outcome.message == "20°."
    assert [one.get("tool_choice", "auto") == "auto" for one in endpoint.requests] == [False, True], "demanded once"
    result = endpoint.requests[1]["messages"][-1]
    assert (result["role"], '{"degrees": 20}' in result["content"]) == ("tool", True)


@tool(needs_approval=True)
def erase(name: str) -> str:
    """Erases a file."""
    return f"{name} is gone"


async def test_own_and_approved_tools_work_beside_the_clients(endpoint: Endpoint):
    wanted = ("weather", {}), ("double", {"number": 4}), ("erase", {"name": "a.txt"})
    endpoint.replies = [calls(*wanted), calls(("weather", {})), says("Done.")]
    first = await testing.run(handler(erase), said("All.", tools=[TOOL]))
    assert not isinstance(first.outcome, CallClient), "people approve before the client is asked"
    second = await first.answer("approve")
    third = await second.answer(given((second.outcome.calls[0], "cold")))
    fourth = await third.answer(given((third.outcome.calls[0], "warm")))
    assert fourth.said == "Done."
    results = " ".join(one["content"] for one in endpoint.requests[2]["messages"] if one["role"] == "tool")
    assert all(word in results for word in ("cold", "8", "a.txt is gone", "warm"))


async def test_an_answer_has_the_clients_form(endpoint: Endpoint):
    endpoint.replies = [calls(("final_result", {"town": "Rome"})), calls(("final_result", {"city": "Rome"}))]
    run = await testing.run(handler(), said("Where?", output={"name": "place", "schema": SCHEMA}))
    assert json.loads(run.said) == {"city": "Rome"}
    assert len(endpoint.requests) == 2, "an unfit answer is asked for again"


async def test_settings_reach_the_model_within_the_agents_limit(endpoint: Endpoint):
    endpoint.replies = [says("Yes.")]
    wishes = {"max_tokens": 500, "stop_sequences": ["."], "seed": 7}
    await testing.run(handler(settings={"max_tokens": 100}), said("Hi.", settings=wishes))
    body = endpoint.requests[0]
    sent = body.get("max_tokens") or body.get("max_completion_tokens")
    assert (sent, body["stop"], body["seed"]) == (100, ["."], 7)


@pytest.mark.parametrize(
    "wishes",
    [
        {"settings": {"extra_body": {"model": "dear"}, "extra_headers": {"X": "y"}, "timeout": 9}},
        {"settings": {"max_tokens": "x", "stop_sequences": [1], "seed": True, "temperature": None}},
        {"settings": "x"},
        {"tools": 5},
    ],
)
async def test_impossible_wishes_are_ignored(endpoint: Endpoint, wishes: Any):
    endpoint.usual = says("Yes.")
    await testing.run(handler(), said("Hi."))
    assert (await testing.run(handler(), said("Hi.", **wishes))).said == "Yes."
    assert endpoint.requests[0] == endpoint.requests[1]


class Forecast(SkillHandler):
    """Calls the client's tool without a model."""

    wishes = ("tools",)

    async def on_request(self, task: TaskContext) -> CallClient:
        return task.client.call("weather", city=task.message.text)

    async def on_input_received(self, task: TaskContext) -> str:
        return f"It is {task.client.result_of(task.client.calls[0])}."


async def test_a_handler_calls_a_clients_tool():
    asked = await testing.run(Forecast, said("Rome", tools=[TOOL]))
    assert (await asked.answer(given((asked.outcome.calls[0], "warm")))).said == "It is warm."
