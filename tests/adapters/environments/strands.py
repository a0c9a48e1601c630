"""Agents of Strands, with its own package. It runs in an environment without Parley."""

import asyncio
import json

import pytest
from pydantic import BaseModel
from strands import Agent, ToolContext, tool
from strands.models import Model

from agentkit import Failed, InputRequired, ToolCall, ToolResult, Usage, testing
from agentkit.adapters.strands import agent


class Scripted(Model):
    """A model that says these things, one after the other: texts, or lists of calls as (name, arguments)."""

    def __init__(self, *said, stop="end_turn"):
        self.said = list(said)
        self.heard = []
        self.stop = stop

    def update_config(self, **config):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *arguments, **named):
        raise NotImplementedError
        yield

    async def stream(self, messages, *arguments, **named):
        self.heard.append([*messages])
        said = self.said.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(said, str):
            yield {"contentBlockStart": {"start": {}}}
            for at, word in enumerate(said.split(" ")):
                await asyncio.sleep(0)
                yield {"contentBlockDelta": {"delta": {"text": word if at == 0 else f" {word}"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": self.stop}}
        else:
            for at, (name, arguments) in enumerate(said):
                called = {"name": name, "toolUseId": f"{id(self)} {len(self.heard)} {at}"}
                yield {"contentBlockStart": {"start": {"toolUse": called}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
        used = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}
        yield {"metadata": {"usage": used, "metrics": {"latencyMs": 1}}}


def helper(*said, stop="end_turn", **fields):
    return Agent(name="Helper", model=Scripted(*said, stop=stop), callback_handler=None, **fields)


@tool
def weather(city: str) -> str:
    """The weather."""
    return f"Sun in {city}"


@tool(context=True)
def delete(name: str, tool_context: ToolContext) -> str:
    """Deletes a file."""
    allowed = tool_context.interrupt("delete", reason=f"May I delete {name}?")
    return f"{name}: {allowed}"


async def test_text_streams_and_is_the_answer():
    run = await testing.run(agent(helper("Good day to you")), "hello")
    assert run.text == run.said == "Good day to you"
    assert Usage("model", 1, 3, 4) in run.emissions


async def test_tool_calls_are_reported():
    run = await testing.run(agent(helper([("weather", {"city": "Rome"})], "Sunny", tools=[weather])), "hello")
    called, given = [one for one in run.emissions if isinstance(one, ToolCall | ToolResult)]
    assert (called.name, called.arguments, given.result) == ("weather", {"city": "Rome"}, "Sun in Rome")
    assert (called.call_id, called.name) == (given.call_id, given.name)
    assert run.said == "Sunny"


async def test_interrupts_are_questions_and_resume():
    def make():
        return helper(*said, tools=[delete])

    said = [[("delete", {"name": "a"}), ("delete", {"name": "b"})], "Done"]
    asked = await testing.run(agent(make), "Delete them")
    said = ["Done"]
    for name, answer in (("a", "yes"), ("b", "no")):
        assert isinstance(asked.outcome, InputRequired)
        assert asked.said == f"May I delete {name}?"
        asked = await asked.answer(answer)
    results = [one.result for one in asked.emissions if isinstance(one, ToolResult)]
    assert (asked.said, results) == ("Done", ["a: yes", "b: no"])


async def test_conversation_keeps_its_messages():
    theirs = helper("One", "Two", "Three")
    served, session = agent(theirs), {}
    await testing.run(served, "first", session=session, files={"a.png": b"png"})
    await testing.run(served, "elsewhere")
    await testing.run(served, "second", session=session)
    assert [one["content"][0]["text"] for one in theirs.model.heard[-1]] == ["first", "One", "second"]
    assert theirs.model.heard[-1][0]["content"][1]["image"] == {"format": "png", "source": {"bytes": b"png"}}


async def test_turns_of_one_agent_wait_for_each_other():
    served = agent(helper("One", "Two"))
    runs = await asyncio.gather(*(testing.run(served, "hello") for _ in range(2)))
    assert [run.said for run in runs] == ["One", "Two"]


class Forecast(BaseModel):
    city: str


async def test_structured_output_is_data():
    theirs = helper([("Forecast", {"city": "Rome"})], structured_output_model=Forecast)
    run = await testing.run(agent(theirs), "hello")
    assert run.delivered[0].data == [{"city": "Rome"}]


async def test_guardrail_fails_the_task():
    run = await testing.run(agent(helper("No.", stop="guardrail_intervened")), "hello")
    assert run.outcome == Failed("No.", "guardrail")


async def test_exception_of_the_model_fails_the_turn():
    with pytest.raises(Exception, match="pop from empty list"):
        await testing.run(agent(helper()), "hello")


async def test_turn_that_starts_again_repeats_no_tool_call():
    ran, effects, message = [], testing.RememberedEffects(), testing.user_message("hello")

    @tool
    def book(city: str) -> str:
        """Books."""
        ran.append(city)
        return f"Booked {city}"

    def served(*said):
        return agent(helper(*said, tools=[book, delete]), retry_safe=True)

    rome, oslo = [("book", {"city": "Rome"})], [("book", {"city": "Oslo"})]
    with pytest.raises(Exception, match="pop from empty list"):  # the process dies
        await testing.run(served(rome), message, effects=effects)
    again = served(rome, oslo, [("delete", {"name": "a"})], "Done")
    asked = await testing.run(again, message, effects=effects)
    assert ran == ["Rome", "Oslo"]
    assert [one.result for one in asked.emissions if isinstance(one, ToolResult)] == ["Booked Rome", "Booked Oslo"]
    assert (await asked.answer("yes")).said == "Done"
