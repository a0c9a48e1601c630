"""Agents of Google's Agent Development Kit, with its own package. It runs in an environment without Parley."""

import asyncio
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import RequestInput
from google.adk.models import BaseLlm, LlmResponse
from google.adk.tools import FunctionTool, LongRunningFunctionTool
from google.adk.workflow import START, Workflow
from google.genai import types
from pydantic import BaseModel

from agentkit import Failed, InputRequired, ToolCall, ToolResult, Usage, testing
from agentkit.adapters.google_adk import agent


class Scripted(BaseLlm):
    """A model that says these things, one after the other: texts, or lists of calls as (name, arguments)."""

    model: str = "scripted"
    said: list[Any]
    heard: list[Any] = []

    async def generate_content_async(self, llm_request, stream=False):
        self.heard.append([one.model_copy(deep=True) for one in llm_request.contents])
        said = self.said.pop(0)
        used = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, candidates_token_count=4)
        if isinstance(said, LlmResponse):
            yield said
        elif isinstance(said, str):
            for at, word in enumerate(said.split(" ")):
                yield LlmResponse(content=content(types.Part(text=word if at == 0 else f" {word}")), partial=True)
            yield LlmResponse(content=content(types.Part(text=said)), usage_metadata=used)
        else:
            calls = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in said]
            yield LlmResponse(content=content(*calls), usage_metadata=used)


def content(*parts):
    return types.Content(role="model", parts=list(parts))


def helper(*said, **fields):
    return LlmAgent(name="helper", model=Scripted(said=list(said)), **fields)


def weather(city: str) -> dict[str, str]:
    """The weather."""
    return {"sky": f"Sun in {city}"}


def texts(theirs):
    """What the model heard last."""
    return [
        part.text or part.function_response or part.function_call
        for one in theirs.model.heard[-1]
        for part in one.parts
    ]


async def test_text_streams_and_is_the_answer():
    run = await testing.run(agent(helper("Good day to you")), "hello")
    assert run.text == run.said == "Good day to you"
    assert [one for one in run.emissions if isinstance(one, Usage)] == [Usage("model", 1, 3, 4)]


async def test_tool_calls_are_reported():
    run = await testing.run(agent(helper([("weather", {"city": "Rome"})], "Sunny", tools=[weather])), "hello")
    called, given = [one for one in run.emissions if isinstance(one, ToolCall | ToolResult)]
    assert (called.name, called.arguments, given.result) == ("weather", {"city": "Rome"}, {"sky": "Sun in Rome"})
    assert called.call_id == given.call_id
    assert run.said == "Sunny"


async def test_transfers_are_progress():
    other = LlmAgent(name="desk", model=Scripted(said=["Sunny"]), description="The weather desk.")
    theirs = helper([("transfer_to_agent", {"agent_name": "desk"})], sub_agents=[other])
    run = await testing.run(agent(theirs), "hello")
    assert run.recorder.progress == ["desk takes over."]
    assert run.said == "Sunny"


@pytest.mark.parametrize(("said", "done"), [("approve", ["a.txt"]), ("refuse", [])])
async def test_tool_that_needs_confirmation_asks(said, done):
    deleted = []

    def delete(name: str) -> str:
        """Deletes a file."""
        deleted.append(name)
        return "gone"

    theirs = helper([("delete", {"name": "a.txt"})], "Done", tools=[FunctionTool(delete, require_confirmation=True)])
    asked = await testing.run(agent(theirs), "Delete it")
    assert isinstance(asked.outcome, InputRequired)
    assert asked.outcome.parts[1]["data"] == {"tool": "delete", "arguments": {"name": "a.txt"}}
    run = await asked.answer(said)
    assert (run.said, deleted) == ("Done", done)


async def test_long_running_tools_ask_for_their_results():
    def ask_boss(what: str) -> None:
        """Asks the boss."""

    theirs = helper(
        [("ask_boss", {"what": "a"}), ("ask_boss", {"what": "b"})], "Done", tools=[LongRunningFunctionTool(ask_boss)]
    )
    run = await testing.run(agent(theirs), "hello")
    for what, said in (("a", "yes"), ("b", "no")):
        assert isinstance(run.outcome, InputRequired)
        assert run.outcome.parts[1]["data"]["arguments"] == {"what": what}
        run = await run.answer(said)
    assert run.said == "Done"
    assert [one.response for one in texts(theirs)[-2:]] == [{"result": "yes"}, {"result": "no"}]


async def test_requested_input_resumes_a_workflow():
    def ask(node_input: str):
        yield RequestInput(message="Which city?", response_schema={"type": "string", "enum": ["Rome", "Oslo"]})

    def book(node_input: str) -> str:
        return f"Booked {node_input}"

    asked = await testing.run(agent(Workflow(name="travel", edges=[(START, ask, book)])), "a trip")
    assert isinstance(asked.outcome, InputRequired)
    assert (asked.said, asked.outcome.schema["enum"]) == ("Which city?", ["Rome", "Oslo"])
    assert (await asked.answer("Rome")).said == "Booked Rome"


async def test_session_is_kept_with_its_state():
    def remember(tool_context) -> str:
        """Remembers."""
        tool_context.state["count"] = tool_context.state.get("count", 0) + 1
        return str(tool_context.state["count"])

    session = {}
    for count in ("1", "2"):
        theirs = helper([("remember", {})], "Done", tools=[FunctionTool(remember)])
        run = await testing.run(agent(theirs), "hello", session=session)
        (result,) = [one.result for one in run.emissions if isinstance(one, ToolResult)]
        assert result == {"result": count}
    assert len(texts(theirs)) == 7


async def test_history_is_heard_without_a_kept_session():
    theirs = helper("Done")
    await testing.run(agent(theirs), "second", history=[testing.user_message("first")])
    assert texts(theirs) == ["first", "second"]


class Forecast(BaseModel):
    city: str


async def test_typed_output_is_data():
    run = await testing.run(agent(helper('{"city": "Rome"}', output_schema=Forecast)), "hello")
    assert run.delivered[0].data == [{"city": "Rome"}]


async def test_model_error_fails_the_task():
    theirs = helper(LlmResponse(error_code="SAFETY", error_message="Blocked."))
    assert (await testing.run(agent(theirs), "hello")).outcome == Failed("Blocked.", "model", {"code": "SAFETY"})


async def test_files_are_sent_along():
    theirs = helper("I see")
    await testing.run(agent(theirs), "Look", files={"a.png": b"png"})
    data = theirs.model.heard[0][0].parts[1].inline_data
    assert (data.mime_type, data.data) == ("image/png", b"png")


async def test_conversations_do_not_mix():
    theirs = agent(helper("One", "Two"))
    runs = await asyncio.gather(*(testing.run(theirs, "hello") for _ in range(2)))
    assert {run.said for run in runs} == {"One", "Two"}


async def test_turn_that_starts_again_repeats_no_tool_call():
    ran, effects, message = [], testing.RememberedEffects(), testing.user_message("hello")

    def book(city: str, tool_context) -> str:
        """Books."""
        ran.append(city)
        tool_context.state[city] = "booked"
        return f"Booked {city}"

    def desk(*said):
        other = LlmAgent(name="desk", model=Scripted(said=list(said)), description="Books.", tools=[book])
        return agent(helper([("transfer_to_agent", {"agent_name": "desk"})], sub_agents=[other]), retry_safe=True)

    calls, session = ([("book", {"city": "Rome"})], [("book", {"city": "Rome"})]), {}
    with pytest.raises(IndexError):  # the process dies
        await testing.run(desk(*calls), message, effects=effects)
    again = desk(*calls, [("book", {"city": "Oslo"})], "Done")
    run = await testing.run(again, message, effects=effects, session=session)
    assert (run.said, ran) == ("Done", ["Rome", "Rome", "Oslo"])
    assert session["google_adk"]["state"] == {"Rome": "booked", "Oslo": "booked"}


async def test_own_callbacks_hold_for_kept_results():
    effects, message = testing.RememberedEffects(), testing.user_message("hello")

    def louder(tool, args, tool_context, tool_response):
        return {"sky": tool_response["sky"].upper()}

    def theirs(*said):
        model = Scripted(said=list(said))
        made = LlmAgent(name="helper", model=model, tools=[weather], after_tool_callback=louder)
        return agent(made, retry_safe=True)

    call = [("weather", {"city": "Rome"})]
    with pytest.raises(IndexError):
        await testing.run(theirs(call), message, effects=effects)
    run = await testing.run(theirs(call, "Done"), message, effects=effects)
    assert [one.result for one in run.emissions if isinstance(one, ToolResult)] == [{"sky": "SUN IN ROME"}]
