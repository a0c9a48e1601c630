"""Agents and pipelines of Haystack, with its own package. It runs in an environment without Parley."""

import os

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

import pytest
from haystack import Pipeline, component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.dataclasses import ToolCall as Called
from haystack.tools import tool

from agentkit import Failed, ToolCall, ToolResult, Usage, testing
from agentkit.adapters.haystack import agent


@component
class Scripted:
    """A model that says these things, one after the other: texts, or lists of calls as (name, arguments)."""

    def __init__(self, *said):
        self.said = list(said)
        self.heard = []

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools=None, generation_kwargs=None, streaming_callback=None):
        raise NotImplementedError

    @component.output_types(replies=list[ChatMessage])
    async def run_async(self, messages: list[ChatMessage], tools=None, generation_kwargs=None, streaming_callback=None):
        self.heard.append(messages)
        said = self.said.pop(0)
        meta = {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}
        if not isinstance(said, str):
            calls = [Called(name, arguments, id=f"{name} {at}") for at, (name, arguments) in enumerate(said)]
            return {"replies": [ChatMessage.from_assistant(tool_calls=calls, meta=meta)]}
        for at, word in enumerate(said.split(" ")):
            await streaming_callback(StreamingChunk(word if at == 0 else f" {word}"))
        return {"replies": [ChatMessage.from_assistant(said, meta=meta)]}


@tool
def weather(city: str) -> str:
    """The weather."""
    return f"Sun in {city}"


async def test_text_streams_and_is_the_answer():
    run = await testing.run(agent(Agent(chat_generator=Scripted("Good day to you"))), "hello")
    assert run.text == run.said == "Good day to you"
    assert Usage("model", 1, 3, 4) in run.emissions


async def test_tool_calls_are_reported():
    model = Scripted([("weather", {"city": "Rome"})], "Sunny")
    run = await testing.run(agent(Agent(chat_generator=model, tools=[weather])), "hello")
    kinds = [one for one in run.emissions if isinstance(one, ToolCall | ToolResult)]
    assert kinds == [
        ToolCall("weather 0", "weather", {"city": "Rome"}),
        ToolResult("weather 0", "weather", "Sun in Rome"),
    ]
    assert run.said == "Sunny"


async def test_conversation_keeps_its_messages():
    model, session = Scripted([("weather", {"city": "Rome"})], "Sunny", "Still sunny"), {}
    served = agent(Agent(chat_generator=model, tools=[weather], system_prompt="Be kind."))
    for text in ("hello", "and now?"):
        await testing.run(served, text, session=session)
    assert [one.role.value for one in model.heard[-1]] == ["system", "user", "assistant", "tool", "assistant", "user"]


async def test_turn_that_starts_again_repeats_no_tool_call():
    ran, effects, message = [], testing.RememberedEffects(), testing.user_message("hello")

    @tool
    def book(city: str) -> str:
        """Books."""
        ran.append(city)
        return f"Booked {city}"

    def desk(*said):
        return agent(Agent(chat_generator=Scripted(*said), tools=[book]), retry_safe=True)

    calls = ([("book", {"city": "Rome"})], [("book", {"city": "Rome"})])
    with pytest.raises(Exception, match="pop from empty list"):  # the process dies
        await testing.run(desk(*calls), message, effects=effects)
    run = await testing.run(desk(*calls, [("book", {"city": "Oslo"})], "Done"), message, effects=effects)
    assert (run.said, ran) == ("Done", ["Rome", "Rome", "Oslo"])
    results = [one.result for one in run.emissions if isinstance(one, ToolResult)]
    assert results == ["Booked Rome", "Booked Rome", "Booked Oslo"]


async def test_files_are_sent_along():
    model = Scripted("I see")
    await testing.run(agent(Agent(chat_generator=model)), "Look", files={"a.png": b"png", "b.pdf": b"pdf"})
    heard = model.heard[0][0]
    assert (heard.text, heard.image.mime_type, heard.file.filename) == ("Look", "image/png", "b.pdf")


async def test_endless_agents_fail():
    model = Scripted(*[[("weather", {"city": "Rome"})]] * 3)
    run = await testing.run(agent(Agent(chat_generator=model, tools=[weather], max_agent_steps=2)), "hello")
    assert isinstance(run.outcome, Failed)
    assert run.outcome.code == "max_agent_steps"


@component
class Louder:
    @component.output_types(text=str)
    def run(self, query: str):
        return {"text": query.upper()}


@component
class Ending:
    @component.output_types(replies=list[str])
    def run(self, text: str, ending: str = "!"):
        return {"replies": [text + ending]}


def pipeline(*components):
    made = Pipeline()
    for name, one in components:
        made.add_component(name, one)
    return made


def loud():
    made = pipeline(("make_loud", Louder()), ("end", Ending()))
    made.connect("make_loud.text", "end.text")
    return agent(made)


async def test_pipelines_reply_is_the_answer():
    run = await testing.run(loud(), "hello")
    assert (run.said, run.recorder.progress) == ("HELLO!", ["make loud", "end"])


async def test_pipelines_take_and_give_data():
    assert (await testing.run(loud(), {"query": "hello", "ending": "?"})).said == "HELLO?"
    run = await testing.run(agent(pipeline(("louder", Louder()))), "hello")
    assert run.delivered[0].data == [{"louder": {"text": "HELLO"}}]


async def test_exception_fails_the_turn():
    with pytest.raises(Exception, match="query"):
        await testing.run(loud(), {"ending": "?"})
