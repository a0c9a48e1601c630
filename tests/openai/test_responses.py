"""Responses, by OpenAI's own client."""

import openai
import pytest

from apps.record.models import Context
from parley import db
from tests.doors import agents
from tests.engine.delegating import until

pytestmark = pytest.mark.django_db(transaction=True)


async def respond(client, words, **options):
    return await client.responses.create(model="speaking", input=words, **options)


async def test_a_response_goes_on_with_the_previous_one(client, speaking, worker):
    first = await respond(client, "hello")
    assert (first.status, first.output_text) == ("completed", "hello")
    second = await respond(client, "again", previous_response_id=first.id, instructions="Be brief.")
    assert second.output_text == "again | user: hello | agent: hello | told: Be brief."
    assert await db.run(Context.objects.count) == 1


async def test_questions_are_answered_and_tools_shown(client, speaking, worker):
    asked = await respond(client, "ask")
    assert asked.output_text == "Which word?"
    told = await respond(client, "blue", previous_response_id=asked.id)
    assert told.output_text == "It was blue."
    assert (await client.responses.retrieve(asked.id)).output_text == "Which word?"
    call, message = (await respond(client, "tool")).output
    assert (call.type, call.name, call.arguments, call.output, call.status) == (
        "mcp_call", "weather", '{"city":"Oslo"}', '{"degrees":3}', "completed",
    )  # fmt: skip
    assert message.content[0].text == "It is cold."


async def test_stream_can_be_read_again_from_any_event(client, speaking, worker):
    events = [event async for event in await respond(client, "stream", stream=True)]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "One two three."
    whole = events[-1].response
    assert whole.usage.total_tokens == 10
    again = await client.responses.retrieve(whole.id, stream=True, starting_after=3)
    assert [(event.sequence_number, event.type) async for event in again] == [
        (event.sequence_number, event.type) for event in events[4:]
    ]
    assert (await client.responses.retrieve(whole.id)).output == whole.output


def user(text):
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


async def test_references_stand_for_own_answers(client, openai_for, bob_key, speaking, worker):
    first = await respond(client, [user("hello")])
    reference = {"type": "item_reference", "id": first.output[0].id}
    assert (await respond(client, [user("hello"), reference, user("again")])).output_text == (
        "again | user: hello | agent: hello"
    )
    assert await db.run(Context.objects.count) == 1
    for key in (first.output[0].id, "rs_1"):
        given = [user("hello"), {"type": "item_reference", "id": key}, user("again")]
        assert (await respond(openai_for(bob_key), given)).output_text == "again | user: hello"


MCP_CALL = {"server_label": "s", "name": "n", "arguments": "{}", "output": "12", "error": None}
ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
    {"type": "mcp_call", "id": "mcp_1", **MCP_CALL},
    {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "noon"}]},
    {"type": "something_new", "value": 5},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Noon."}]},
    {"role": "assistant", "content": None},
    {"role": "user", "content": ""},
]


async def test_items_of_all_types_are_taken(client, speaking, worker):
    for item in ITEMS:
        answered = await respond(client, [user("What time is it?"), item, user("And now?")])
        assert "And now?" in answered.output_text, item


async def test_a_conversation_is_a_session(client, speaking, worker):
    first = await respond(client, "hello", conversation="talk")
    assert first.conversation.id == "talk"
    assert (await respond(client, "again", conversation={"id": "talk"})).output_text == (
        "again | user: hello | agent: hello"
    )
    with pytest.raises(openai.BadRequestError) as refused:
        await respond(client, "more", conversation="talk", previous_response_id=first.id)
    assert refused.value.param == "conversation"


async def test_one_in_the_background_is_polled_and_canceled(client, speaking, worker):
    begun = await respond(client, "wait", background=True)
    assert begun.status in ("queued", "in_progress")
    await until(agents.STARTED.is_set)
    assert (await client.responses.retrieve(begun.id)).status == "in_progress"
    assert (await client.responses.cancel(begun.id)).status == "cancelled"
    assert (await client.responses.retrieve(begun.id)).status == "cancelled"
    done = await respond(client, "done")
    with pytest.raises(openai.BadRequestError):
        await client.responses.cancel(done.id)


async def test_a_failure_is_a_failed_response(client, speaking, worker):
    failed = await respond(client, "fail")
    assert (failed.status, failed.error.message) == ("failed", "The agent cannot do this.")
    events = [event async for event in await respond(client, "fail", stream=True)]
    assert events[-1].type == "response.failed"
