"""Agents of Pydantic AI are agents: text, tools, approvals, memory, files."""

import asyncio

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, UsageLimitExceeded
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from agentkit import Failed, InputRequired, ToolCall, ToolResult, Usage, testing
from agentkit.adapters.pydantic_ai import agent
from apps.agents.registration import register_hosted
from parley import db
from tests.remote.conversing import Talk, words


def scripted(*said, heard=None):
    """A model that says these things, one after the other: texts, or lists of calls as (name, arguments)."""
    rest = list(said)

    async def stream(messages, info):
        if heard is not None:
            heard.append(messages)
        now = rest.pop(0)
        if isinstance(now, str):
            for word in now.split(" "):
                yield word if now.startswith(word) else f" {word}"
        else:
            ids = (f"{name} {at}" for at, (name, _) in enumerate(now))
            yield {at: DeltaToolCall(*call, tool_call_id=next(ids)) for at, call in enumerate(now)}

    return FunctionModel(stream_function=stream)


async def test_text_streams_and_is_the_answer():
    run = await testing.run(agent(Agent(scripted("Good day to you"))), "hello")
    assert run.text == run.said == "Good day to you"
    (used,) = [one for one in run.emissions if isinstance(one, Usage)]
    assert used.requests == 1


async def test_tool_calls_are_reported():
    theirs = Agent(scripted([("weather", '{"city": "Rome"}')], "Sunny"))

    @theirs.tool_plain
    def weather(city: str) -> str:
        return f"Sun in {city}"

    run = await testing.run(agent(theirs), "hello")
    assert [one for one in run.emissions if isinstance(one, ToolCall | ToolResult)] == [
        ToolCall("weather 0", "weather", {"city": "Rome"}),
        ToolResult("weather 0", "weather", "Sun in Rome"),
    ]
    assert run.said == "Sunny"


@pytest.mark.parametrize("stops", [False, True])
async def test_messages_and_stops_come_between_requests(stops):
    heard, stop = [], asyncio.Event()
    theirs = Agent(scripted([("weather", "{}")], "Sunny", heard=heard))

    @theirs.tool_plain
    def weather() -> str:
        if stops:
            stop.set()
        return "Sun"

    run = await testing.run(agent(theirs), "hello", inbox=["In Rome"], stop_after_step=stop)
    assert run.text == run.said == ("Stopped here, as you asked." if stops else "Sunny")
    last = heard[-1][-1].parts
    assert [part.content for part in last] == (["hello"] if stops else ["Sun", "In Rome"])


async def test_deferred_tools_ask_one_after_the_other():
    deleted = []
    calls = [("delete", '{"name": "a"}'), ("delete", '{"name": "b"}'), ("look_up", "{}")]
    theirs = Agent(scripted(calls, "Done"), output_type=[str, DeferredToolRequests])

    @theirs.tool_plain(requires_approval=True)
    def delete(name: str) -> str:
        deleted.append(name)
        return "gone"

    @theirs.tool_plain
    def look_up() -> str:
        raise CallDeferred

    run = await testing.run(agent(theirs), "Clean up")
    for said, shown in (("approve", {"name": "a"}), ("refuse", {"name": "b"}), ("42", {})):
        assert isinstance(run.outcome, InputRequired)
        assert run.outcome.parts[1]["data"]["arguments"] == shown
        run = await run.answer(said)
    assert run.said == "Done"
    assert deleted == ["a"]


async def test_conversation_keeps_its_messages():
    heard: list[list[object]] = []
    theirs, session = agent(Agent(scripted("One", "Two", heard=heard))), {}
    for text in ("first", "second"):
        await testing.run(theirs, text, session=session)
    assert isinstance(heard[1][1], ModelResponse)
    assert heard[1][1].parts == [TextPart("One")]
    assert len(heard[1]) == 3


class Forecast(BaseModel):
    city: str


async def test_typed_output_is_data():
    run = await testing.run(
        agent(Agent(scripted([("final_result", '{"city": "Rome"}')]), output_type=Forecast)), "hello"
    )
    assert run.delivered[0].data == [{"city": "Rome"}]


async def test_files_are_sent_along():
    heard: list[list[object]] = []
    await testing.run(agent(Agent(scripted("I see", heard=heard))), "Look", files={"a.png": b"png"})
    text, picture = heard[0][0].parts[0].content
    assert (text, picture.data, picture.media_type) == ("Look", b"png", "image/png")


async def test_limits_of_usage_fail_the_task():
    theirs = Agent(scripted([("again", "{}")]))

    @theirs.tool_plain
    def again() -> str:
        raise UsageLimitExceeded("Enough.")

    run = await testing.run(agent(theirs), "hello")
    assert isinstance(run.outcome, Failed)
    assert run.outcome.code == "usage_limit"


async def test_turn_that_starts_again_repeats_no_tool_call():
    ran, effects, message = [], testing.RememberedEffects(), testing.user_message("hello")
    call = [("forecast", '{"city": "Rome"}')]

    def theirs(*said):
        made = Agent(scripted(*said))

        @made.tool_plain
        def forecast(city: str) -> Forecast:
            ran.append(city)
            return Forecast(city=city)

        return agent(made, retry_safe=True)

    with pytest.raises(IndexError):  # the process dies
        await testing.run(theirs(call), message, effects=effects)
    run = await testing.run(theirs(call, [("forecast", '{"city": "Oslo"}')], "Sunny"), message, effects=effects)
    assert run.said == "Sunny"
    assert ran == ["Rome", "Oslo"]


def desk_agent():
    theirs = Agent(scripted([("delete", '{"name": "a"}')], "Done"), output_type=[str, DeferredToolRequests])

    @theirs.tool_plain(requires_approval=True)
    def delete(name: str) -> str:
        return "gone"

    return agent(theirs, name="Desk")


desk = desk_agent()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_parley_hosts_the_agent_and_asks(ada):
    talk = Talk(ada, await db.run(register_hosted, "desk", "tests.adapters.test_pydantic_ai:desk"))
    asked = await talk.ask("Delete it")
    assert (asked.state, asked.slot["schema"]["enum"]) == ("input-required", ["approve", "refuse"])
    done = await talk.ask("approve", task=asked)
    assert (done.state, words(done)) == ("completed", "Done")
