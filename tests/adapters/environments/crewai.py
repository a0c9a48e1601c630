"""Crews and flows of CrewAI, with its own package. It runs in an environment without Parley."""

import os

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

import asyncio

import pytest
from crewai import Agent, BaseLLM, Crew, Flow, Task
from crewai.flow import human_feedback, listen, persist, start
from crewai.tools import tool
from pydantic import BaseModel

from agentkit import Completed, InputRequired, ToolCall, ToolResult, testing
from agentkit.adapters.crewai import agent


class Scripted(BaseLLM):
    """A model that says these things, one after the other."""

    said: list[str] = []
    heard: list[str] = []

    def call(self, messages, from_task=None, from_agent=None, **named):
        self.heard.append(str(messages))
        text = self.said.pop(0)
        self._emit_stream_chunk_event(chunk=text, from_task=from_task, from_agent=from_agent)
        return text

    async def acall(self, messages, **named):
        return self.call(messages, **named)

    def supports_function_calling(self):
        return False


@tool("weather")
def weather(city: str) -> str:
    """The weather."""
    return f"Sun in {city}"


CALL = 'Thought: I look.\nAction: weather\nAction Input: {"city": "Rome"}'


def crew(*said, tools=(), **fields):
    guide = Agent(
        role="Guide", goal="Help", backstory="Old", llm=Scripted(model="scripted", said=[*said]), tools=[*tools]
    )
    answering = Task(description="{message}", expected_output="A text.", agent=guide, name="Answering", **fields)
    return Crew(agents=[guide], tasks=[answering], name="travel_desk")


def final(text):
    return f"Thought: I know.\nFinal Answer: {text}"


async def test_last_task_is_the_answer():
    theirs = crew(final("Good day to you"))
    run = await testing.run(agent(theirs), "hello there")
    assert run.outcome == Completed("Good day to you")
    assert "Good day to you" in run.text
    assert run.recorder.progress == ["Answering"]
    assert "hello there" in theirs.agents[0].llm.heard[0]
    assert agent(theirs).name == "travel desk"


async def test_tool_calls_are_reported():
    run = await testing.run(agent(crew(CALL, final("Sunny"), tools=[weather])), "hello")
    called, given = [one for one in run.emissions if isinstance(one, ToolCall | ToolResult)]
    assert (called.name, called.arguments, given.result) == ("weather", {"city": "Rome"}, "Sun in Rome")
    assert called.call_id == given.call_id
    assert run.said == "Sunny"


class Forecast(BaseModel):
    city: str


async def test_typed_output_is_data():
    run = await testing.run(agent(crew(final('{"city": "Rome"}'), output_pydantic=Forecast)), "hello")
    assert run.delivered[0].data == [{"city": "Rome"}]


async def test_conversations_do_not_mix():
    theirs = agent(crew(final("One"), final("Two")))
    runs = await asyncio.gather(testing.run(theirs, "a"), testing.run(theirs, "b"))
    assert {run.said for run in runs} == {"One", "Two"}


class Review(Flow):
    @start()
    @human_feedback(message="Is it good?")
    def write(self):
        return f"Draft of {self.state['message']}"

    @listen(write)
    def end_it(self, feedback):
        return f"They said: {feedback.feedback}"


async def test_human_feedback_is_a_question_and_resumes():
    asked = await testing.run(agent(Review), "a poem")
    assert isinstance(asked.outcome, InputRequired)
    assert [one["text"] for one in asked.outcome.parts] == ["Is it good?", "Draft of a poem"]
    run = await asked.answer("very")
    assert run.outcome == Completed("They said: very")
    assert (asked.recorder.progress, run.recorder.progress[-1]) == (["write"], "end it")


@persist()
class Count(Flow):
    @start()
    def count(self):
        self.state["count"] = self.state.get("count", 0) + 1
        return str(self.state["count"])


async def test_persisted_flows_keep_their_state():
    session = {}
    runs = [await testing.run(agent(Count), "hello", session=session) for _ in range(3)]
    assert [run.said for run in runs] == ["1", "2", "3"]
    assert (await testing.run(agent(Count), "hello")).said == "1"


async def test_exception_fails_the_turn():
    class Broken(Flow):
        @start()
        def begin(self):
            raise ValueError("It is broken.")

    with pytest.raises(ValueError, match="It is broken"):
        await testing.run(agent(Broken), "hello")


async def test_canceled_flow_ends():
    begun, ended = asyncio.Event(), asyncio.Event()

    class Slow(Flow):
        @start()
        async def wait(self):
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

    work = asyncio.create_task(testing.run(agent(Slow), "hello"))
    await begun.wait()
    work.cancel()
    await asyncio.wait_for(ended.wait(), 5)
