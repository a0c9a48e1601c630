"""Agents of the OpenAI Agents SDK, with its own package. It runs in an environment without Parley."""

import json

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    Model,
    RunConfig,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails, ResponseUsage
from pydantic import BaseModel

from agentkit import Failed, InputRequired, Rejected, ToolCall, ToolResult, testing
from agentkit import Usage as Used
from agentkit.adapters.openai_agents import agent

QUIET = RunConfig(tracing_disabled=True)


class Scripted(Model):
    """A model that says these things, one after the other: texts, or calls of tools as (name, arguments)."""

    def __init__(self, *said):
        self.said = list(said)
        self.heard = []

    async def get_response(self, *arguments, **named):
        raise NotImplementedError

    async def stream_response(self, system_instructions, input, *arguments, **named):
        self.heard.append(input)
        said = self.said.pop(0)
        if isinstance(said, str):
            text = ResponseOutputText(text=said, type="output_text", annotations=[])
            item = ResponseOutputMessage(id="m", type="message", role="assistant", content=[text], status="completed")
            for at, word in enumerate(said.split(" ")):
                yield ResponseTextDeltaEvent(
                    content_index=0, delta=word if at == 0 else f" {word}", item_id="m", logprobs=[], output_index=0,
                    sequence_number=at, type="response.output_text.delta",
                )  # fmt: skip
        else:
            name, arguments = said
            item = ResponseFunctionToolCall(
                id="f",
                call_id=f"call {id(self)} {len(self.heard)}",
                type="function_call",
                name=name,
                arguments=json.dumps(arguments),
            )
        usage = ResponseUsage(
            input_tokens=3, output_tokens=4, total_tokens=7, input_tokens_details=InputTokensDetails.model_construct(),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        )  # fmt: skip
        response = Response(
            id="r", created_at=0, model="scripted", object="response", output=[item], tool_choice="none", tools=[],
            parallel_tool_calls=False, usage=usage,
        )  # fmt: skip
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=99)


def helper(*said, **fields):
    return Agent(name="Helper", model=Scripted(*said), **fields)


def served(theirs, **options):
    return agent(theirs, run_config=QUIET, **options)


@function_tool
def weather(city: str) -> str:
    """The weather."""
    return f"Sun in {city}"


@function_tool(needs_approval=True)
def delete(name: str) -> str:
    """Deletes a file."""
    return f"{name} is deleted"


async def test_text_streams_and_is_the_answer():
    run = await testing.run(served(helper("Good day to you")), "hello")
    assert run.text == run.said == "Good day to you"
    assert Used("model", 1, 3, 4) in run.emissions


async def test_tool_calls_are_reported():
    run = await testing.run(served(helper(("weather", {"city": "Rome"}), "Sunny", tools=[weather])), "hello")
    called, given = [one for one in run.emissions if isinstance(one, ToolCall | ToolResult)]
    assert (called.name, called.arguments, given.result) == ("weather", {"city": "Rome"}, "Sun in Rome")
    assert called.call_id == given.call_id
    assert run.said == "Sunny"


async def test_handoffs_are_progress():
    other = Agent(name="Weather desk", model=Scripted("Sunny"))
    run = await testing.run(served(helper(("transfer_to_weather_desk", {}), handoffs=[handoff(other)])), "hello")
    assert run.recorder.progress == ["Weather desk takes over."]
    assert run.said == "Sunny"


@pytest.mark.parametrize(("said", "result"), [("approve", "a.txt is deleted"), ("refuse", None)])
async def test_tool_that_needs_approval_asks(said, result):
    theirs = helper(("delete", {"name": "a.txt"}), "Done", tools=[delete])
    asked = await testing.run(served(theirs), "Delete it")
    assert isinstance(asked.outcome, InputRequired)
    assert asked.outcome.parts[1]["data"] == {"tool": "delete", "arguments": {"name": "a.txt"}}
    run = await asked.answer(said)
    assert run.said == "Done"
    outputs = [one["output"] for one in theirs.model.heard[-1] if one.get("type") == "function_call_output"]
    assert (outputs[0] == result) is (result is not None)


async def test_conversation_keeps_tool_calls():
    theirs = helper(("weather", {"city": "Rome"}), "Sunny", "Still sunny", tools=[weather])
    session = {}
    await testing.run(served(theirs), "hello", session=session)
    await testing.run(served(theirs), "and now?", session=session)
    kinds = [one.get("type") or one["role"] for one in theirs.model.heard[-1]]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user"]


async def test_input_guardrail_rejects_the_task():
    @input_guardrail
    async def no_homework(context, theirs, given):
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    run = await testing.run(served(helper("Sure", input_guardrails=[no_homework])), "Do my homework")
    assert run.outcome == Rejected("The guardrail no_homework does not let this in.")


async def test_output_guardrail_fails_the_task():
    @output_guardrail
    async def no_secrets(context, theirs, output):
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    run = await testing.run(served(helper("secret", output_guardrails=[no_secrets])), "hello")
    assert run.outcome == Failed("The guardrail no_secrets does not let the answer out.", "guardrail")


async def test_endless_agents_fail():
    theirs = helper(*[("weather", {"city": "Rome"})] * 5, tools=[weather])
    run = await testing.run(served(theirs, max_turns=2), "hello")
    assert (run.outcome.code, run.said) == ("max_turns", "The agent did not come to an end in 2 turns.")


class Forecast(BaseModel):
    city: str
    degrees: int


async def test_typed_output_is_data():
    run = await testing.run(served(helper('{"city": "Rome", "degrees": 30}', output_type=Forecast)), "hello")
    assert run.delivered[0].data == [{"city": "Rome", "degrees": 30}]


async def test_files_are_sent_along():
    theirs = helper("I see")
    await testing.run(served(theirs), "Look", files={"a.png": b"png", "b.pdf": b"pdf"})
    content = theirs.model.heard[0][0]["content"]
    assert [one["type"] for one in content] == ["input_text", "input_image", "input_file"]


async def test_turn_that_starts_again_repeats_no_tool_call():
    ran, effects, message = [], testing.RememberedEffects(), testing.user_message("hello")

    @function_tool
    def book(city: str) -> str:
        """Books."""
        ran.append(city)
        return f"Booked {city}"

    def desk(*said):
        other = Agent(name="Booking desk", model=Scripted(*said), tools=[book])
        return helper(("transfer_to_booking_desk", {}), handoffs=[handoff(other)])

    calls = [("book", {"city": "Rome"}), ("book", {"city": "Rome"})]
    with pytest.raises(IndexError):  # the process dies
        await testing.run(served(desk(*calls), retry_safe=True), message, effects=effects)
    again = desk(*calls, ("book", {"city": "Oslo"}), "Done")
    run = await testing.run(served(again, retry_safe=True), message, effects=effects)
    assert run.said == "Done"
    assert ran == ["Rome", "Rome", "Oslo"]
    results = [one.result for one in run.emissions if isinstance(one, ToolResult)]
    assert results[-3:] == ["Booked Rome", "Booked Rome", "Booked Oslo"]
