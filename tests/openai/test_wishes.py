"""What OpenAI's clients ask besides messages: tools of their own, answers of a form, settings of the model."""

import json

import openai
import pytest
from pydantic import BaseModel

from apps.record import projection
from apps.record.models import Context, Task
from parley import db
from tests.agents.definitions import clerk
from tests.model_agents.conftest import endpoint as endpoint
from tests.model_agents.endpoint import calls, refuses, says

pytestmark = pytest.mark.django_db(transaction=True)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
TOOL = {"type": "function", "name": "weather", "parameters": PARAMETERS}
HELLO = [{"role": "user", "content": "Weather in Rome?"}]
ROME = ("weather", {"city": "Rome"})


class Place(BaseModel):
    city: str


async def chat(client, messages, model="modeled", **options):
    return await client.chat.completions.create(model=model, messages=messages, **options)


async def respond(client, given, model="modeled", **options):
    return await client.responses.create(model=model, input=given, **options)


def result(call, text="20 degrees"):
    return {"role": "tool", "tool_call_id": call.id, "content": text}


async def test_chat_runs_the_clients_tool(client, modeled, worker, endpoint):
    endpoint.replies = [calls(ROME), says("20°."), says("Mild.")]
    first = (await chat(client, HELLO, tools=[CHAT_TOOL])).choices[0]
    assert (first.finish_reason, first.message.content) == ("tool_calls", None)
    [call] = first.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ROME
    thread = [*HELLO, first.message.model_dump(exclude_none=True), result(call)]
    second, again = [(await chat(client, thread, tools=[CHAT_TOOL])).choices[0].message.content for _ in range(2)]
    assert second == again == "20°.", "sent twice, results count once"
    assert "20 degrees" in endpoint.requests[1]["messages"][-1]["content"]
    later = [*thread, {"role": "assistant", "content": second}, {"role": "user", "content": "And in words?"}]
    assert (await chat(client, later)).choices[0].message.content == "Mild."
    assert await db.run(Context.objects.count) == 1
    [key] = await db.run(list, Context.objects.values_list("pk", flat=True))
    assert await db.run(projection.differences, key) == []


async def test_results_sent_again_after_a_failure_start_anew(client, modeled, worker, endpoint):
    endpoint.replies = [calls(ROME), refuses(400, "no"), says("20°.")]
    message = (await chat(client, HELLO, tools=[CHAT_TOOL])).choices[0].message
    thread = [*HELLO, message.model_dump(exclude_none=True), result(message.tool_calls[0])]
    with pytest.raises(openai.APIStatusError):
        await chat(client, thread, tools=[CHAT_TOOL])
    assert (await chat(client, thread, tools=[CHAT_TOOL])).choices[0].message.content == "20°."
    assert "20 degrees" in endpoint.requests[2]["messages"][-1]["content"]


async def test_results_of_unknown_calls_are_words(client, openai_for, bob_key, modeled, worker, endpoint):
    endpoint.replies = [calls(ROME), says("One."), says("Two.")]
    own = (await chat(client, HELLO, tools=[CHAT_TOOL])).choices[0].message
    foreign = own.tool_calls[0].model_copy(update={"id": "call_0"})
    for asking, call in ((client, foreign), (openai_for(bob_key), own.tool_calls[0])):
        made = {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]}
        await chat(asking, [*HELLO, made, result(call, "5 degrees")])
    assert [one["messages"][-1]["content"] for one in endpoint.requests[1:]] == ["The result of weather: 5 degrees"] * 2
    assert await db.run(Task.objects.filter(state="input-required").count) == 1


async def test_a_response_runs_the_clients_tool(client, modeled, worker, endpoint):
    endpoint.replies = [calls(ROME, text="Let me see."), says("20°.")]
    async with client.responses.stream(model="modeled", input="Weather?", tools=[TOOL]) as stream:
        first = await stream.get_final_response()
    message, call = first.output
    assert (message.type, call.type, call.name, json.loads(call.arguments)) == ("message", "function_call", *ROME)
    again = (await client.responses.retrieve(first.id)).output
    assert [one.id for one in again] == [one.id for one in first.output]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "20 degrees"}
    second = await respond(client, [output], previous_response_id=first.id, tools=[TOOL])
    assert second.output_text == "20°."


async def test_a_demanded_tool_is_called(client, modeled, worker, endpoint):
    endpoint.replies = [calls(ROME)]
    choice = {"type": "function", "function": {"name": "weather"}}
    await chat(client, HELLO, tools=[CHAT_TOOL], tool_choice=choice)
    assert endpoint.requests[0]["tool_choice"] != "auto"
    with pytest.raises(openai.BadRequestError) as refused:
        await chat(client, HELLO, tools=[CHAT_TOOL], tool_choice={"type": "function", "function": {"name": "other"}})
    assert refused.value.param == "tool_choice"
    with pytest.raises(openai.BadRequestError) as refused:
        await chat(client, HELLO, tools=[{"type": "function", "function": {"name": "a b"}}])
    assert refused.value.param.startswith("tools[0].")


async def test_answers_have_the_form_that_is_asked_for(client, modeled, worker, endpoint):
    endpoint.replies = [calls(("final_result", {"city": "Rome"}))] * 2
    parsed = await client.responses.parse(model="modeled", input="Where?", text_format=Place)
    assert parsed.output_parsed == Place(city="Rome")
    chatted = await client.chat.completions.parse(model="modeled", messages=HELLO, response_format=Place)
    assert chatted.choices[0].message.parsed == Place(city="Rome")


async def test_an_answer_that_was_cut_off_says_so(client, modeled, worker, endpoint):
    endpoint.replies = [says("One, two", finish="length")] * 3
    assert (await chat(client, HELLO, max_tokens=2)).choices[0].finish_reason == "length"
    chunks = [one async for one in await chat(client, HELLO, max_tokens=2, stream=True)]
    assert [one.choices[0].finish_reason for one in chunks][-1] == "length"
    async with client.responses.stream(model="modeled", input="Count.", max_output_tokens=20) as stream:
        events = [event async for event in stream]
    ended = events[-1].response
    assert (events[-1].type, ended.status) == ("response.incomplete", "incomplete")
    assert ended.incomplete_details.reason == "max_output_tokens"
    assert (ended.output[-1].status, ended.output_text) == ("incomplete", "One, two")
    kept = await client.responses.retrieve(ended.id)
    assert (kept.status, kept.output) == (ended.status, ended.output)


async def test_agents_without_code_honor_clients(client, worker, endpoint):
    await db.run(clerk, max_tokens=40)
    endpoint.replies = [calls(ROME), says("20°.")]
    first = (await chat(client, HELLO, "clerk", tools=[CHAT_TOOL], max_tokens=50)).choices[0].message
    thread = [*HELLO, first.model_dump(exclude_none=True), result(first.tool_calls[0])]
    assert (await chat(client, thread, "clerk")).choices[0].message.content == "20°."
    asked = endpoint.requests[0]
    assert (asked.get("max_tokens") or asked.get("max_completion_tokens")) == 40


async def test_what_has_no_effect_is_a_warning(client, speaking, worker):
    said = await client.chat.completions.with_raw_response.create(
        model="speaking", messages=HELLO, tools=[CHAT_TOOL], seed=7, logprobs=True, stream=True
    )
    for name in ("tools", "seed", "logprobs"):
        assert name in said.headers["warning"]
    plain = await client.responses.with_raw_response.create(model="speaking", input="hello", store=True)
    assert "warning" not in plain.headers
