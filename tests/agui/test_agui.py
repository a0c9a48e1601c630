"""AG-UI: a run's events, its questions, and going on after a cut."""

import base64
import json
import uuid
from contextlib import suppress

import pytest
from ag_ui.core import Event
from django.test import AsyncClient
from hypothesis import HealthCheck, given
from hypothesis import settings as budget
from hypothesis import strategies as some
from pydantic import TypeAdapter

from apps.optional.agui import views as agui
from apps.record.errors import Refusal
from apps.record.models import Context, Message, Task
from parley import db
from tests.clients.calling import followed
from tests.engine.delegating import until
from tests.model_agents.conftest import endpoint as endpoint
from tests.model_agents.endpoint import calls, says
from tests.openai.test_requests import ANYTHING

pytestmark = pytest.mark.django_db(transaction=True)
EVENT = TypeAdapter(Event)


def user(text, **fields):
    return {"id": uuid.uuid4().hex, "role": "user", "content": text, **fields}


def run(*messages, thread="thread", **fields):
    return {"threadId": thread, "runId": uuid.uuid4().hex, "messages": list(messages), **fields}


@pytest.fixture
def post(ada_key):
    async def call(body, slug="speaking", key=ada_key, **headers):
        named = {"Authorization": f"Bearer {key}"} if key else {}
        data = body if isinstance(body, bytes) else json.dumps(body)
        return await AsyncClient().post(f"/agui/{slug}", data, "application/json", headers={**named, **headers})

    return call


@pytest.fixture
def events(post):
    """The events of a run, each read by the protocol's own types."""

    async def read(body, **options):
        response = await post(body, **options)
        assert response.streaming, response.content
        async with followed(response) as chunks:
            whole = b"".join([chunk async for chunk in chunks])
        blocks = [block for block in whole.split(b"\n\n") if block and not block.startswith(b":")]
        fields = [dict(line.split(b": ", 1) for line in block.split(b"\n")) for block in blocks]
        return [(int(one.get(b"id", 0)), EVENT.validate_json(one[b"data"])) for one in fields]

    return read


def kinds(found):
    return [event.type.value for _, event in found]


def text(found):
    return "".join(event.delta for _, event in found if event.type.value == "TEXT_MESSAGE_CONTENT")


async def test_a_run_streams_text_and_ends(events, speaking, worker):
    found = await events(run(user("stream")))
    assert kinds(found)[:3] == ["RUN_STARTED", "STATE_SNAPSHOT", "TEXT_MESSAGE_START"]
    assert text(found) == "One two three."
    last = found[-1][1]
    assert (last.type.value, last.outcome.type, last.usage[0].total_tokens) == ("RUN_FINISHED", "success", 10)
    last = (await events(run(user("fail"))))[-1][1]
    assert (last.type.value, last.message, last.code) == ("RUN_ERROR", "The agent cannot do this.", "cannot")


async def test_thread_is_a_session_with_new_messages(events, speaking, worker):
    await events(run(user("hello")))
    found = await events(run(user("hello"), {"id": "a", "role": "assistant", "content": "hello"}, user("again")))
    assert text(found) == "again | user: hello | agent: hello"
    assert await db.run(Context.objects.count) == 1
    found = await events(run(user("tool")))
    calls = [event for _, event in found if event.type.value.startswith("TOOL_CALL")]
    assert [event.type.value[10:] for event in calls] == ["START", "ARGS", "END", "RESULT"]
    assert (calls[0].tool_call_name, calls[1].delta, calls[3].content) == (
        "weather",
        '{"city":"Oslo"}',
        '{"degrees":3}',
    )


async def test_resume_answers_an_interrupt(events, speaking, worker):
    asked = (await events(run(user("ask"))))[-1][1].outcome.interrupts[0]
    assert (asked.reason, asked.message) == ("input_required", "Which word?")
    resume = [{"interruptId": asked.id, "status": "resolved", "payload": "blue"}]
    assert text(await events(run(resume=resume))) == "It was blue."
    assert await db.run(Task.objects.count) == 1


async def test_progress_is_an_activity_own_state_stays(events, speaking, worker):
    found = await events(run(user("steps"), state={"theme": "dark", "files": ["old"]}))
    assert (found[1][1].snapshot["theme"], found[1][1].snapshot["files"]) == ("dark", [])
    shown = [event for _, event in found if event.type.value == "ACTIVITY_SNAPSHOT"]
    assert [one.content for one in shown] == [
        {"text": "half", "done": 1, "total": 2},
        {"text": "half, too", "done": None, "total": None},
    ]
    assert len({one.message_id for one in shown}) == 1
    said = await Message.objects.filter(role="user").afirst()
    assert said.metadata["agui"] == {"state": {"theme": "dark"}}


async def test_message_answers_and_cancel_gives_up(events, speaking, worker):
    await events(run(user("ask")))
    assert text(await events(run(user("green")))) == "It was green."
    asked = (await events(run(user("ask"), thread="other")))[-1][1].outcome.interrupts[0]
    given_up = await events(run(thread="other", resume=[{"interruptId": asked.id, "status": "cancelled"}]))
    assert given_up[-1][1].outcome.type == "cancelled"
    assert (await Task.objects.aget(pk=asked.id)).state == "canceled"


async def test_files_come_back_in_the_state(events, speaking, worker):
    data = {"type": "data", "value": base64.b64encode(b"12345").decode(), "mimeType": "image/png"}
    picture = {"type": "image", "source": data}
    found = await events(run(user([{"type": "text", "text": "look"}, picture])))
    assert "image/png 5" in text(found)
    found = await events(run(user("file")))
    changes = [event.delta[0] for _, event in found if event.type.value == "STATE_DELTA"]
    [added] = [change.value for change in changes if change.op == "add"]
    assert (added["name"], added["mediaType"]) == ("table.csv", "text/csv")


async def test_repeated_run_goes_on_where_cut(events, speaking, worker):
    body = run(user("stream"))
    whole = await events(body)
    cut = next(at for at, (index, event) in enumerate(whole) if event.type.value == "TEXT_MESSAGE_CONTENT" and index)
    rest = await events(body, **{"Last-Event-ID": str(whole[cut][0])})
    assert kinds(rest)[:3] == ["RUN_STARTED", "STATE_SNAPSHOT", "TEXT_MESSAGE_START"]  # as clients check each stream
    assert [event for _, event in rest[3:]] == [event for _, event in whole[cut + 1 :]]
    assert await db.run(Task.objects.count) == 1


async def test_repeated_questions_and_answers_count_once(events, speaking, worker):
    for body, kind in ((run(user("ask")), "interrupt"), (run(user("green")), "success")):
        first, again = await events(body), await events(body)
        assert (first[-1][1].outcome.type, again) == (kind, first)
    assert await db.run(Task.objects.count) == 1


async def test_only_a_run_of_ones_own_goes_on(post, events, speaking, worker, bob_key):
    body = run(user("stream"))
    await events(body)
    foreign = await post(body, key=bob_key, **{"Last-Event-ID": "2"})
    unknown = await post(run(user("stream")), key=bob_key, **{"Last-Event-ID": "2"})
    assert (foreign.status_code, foreign.content) == (400, unknown.content)
    assert await db.run(Task.objects.count) == 1


async def test_leaving_client_stops_its_run_if_set(post, speaking, worker, settings):
    async def left(stops):
        settings.AGUI_CANCEL_ON_LEAVE = stops
        response = await post(run(user("wait"), thread=str(stops)))
        async with followed(response) as frames:
            async for frame in frames:
                if b"waiting" in frame:
                    break
        return await db.run(lambda: Task.objects.latest("created_at").pk)

    going_on, stopped = await left(False), await left(True)
    assert await until(Task.objects.filter(pk=stopped, state="canceled").exists)
    assert await db.run(Task.objects.filter(pk=going_on, state="working").exists)


TOOL = {"name": "pick", "description": "Picks a color.", "parameters": {"type": "object", "properties": {}}}


async def test_an_agent_calls_the_front_ends_tool(events, modeled, worker, endpoint):
    endpoint.replies = [calls(("pick", {"of": 3})), says("Red it is.")]
    asked = await events(run(user("A color?"), tools=[TOOL]), slug="modeled")
    made = [event for _, event in asked if event.type.value.startswith("TOOL_CALL")]
    assert [event.type.value[10:] for event in made] == ["START", "ARGS", "END"]
    assert (asked[-1][1].outcome.type, made[1].delta) == ("success", '{"of":3}')
    call = {"id": made[0].tool_call_id, "type": "function", "function": {"name": "pick", "arguments": "{}"}}
    picked = {"id": "t", "role": "tool", "toolCallId": made[0].tool_call_id, "content": "red"}
    body = run(user("A color?"), {"id": "a", "role": "assistant", "toolCalls": [call]}, picked, tools=[TOOL])
    answered = await events(body, slug="modeled")
    assert (text(answered), await events(body, slug="modeled")) == ("Red it is.", answered)
    assert await db.run(Task.objects.count) == 1


async def test_a_result_for_somebody_elses_call_is_words(events, modeled, worker, endpoint, bob_key):
    endpoint.replies = [calls(("pick", {})), says("What?")]
    asked = await events(run(user("A color?"), tools=[TOOL]), slug="modeled")
    key = next(event.tool_call_id for _, event in asked if event.type.value == "TOOL_CALL_START")
    picked = {"id": "t", "role": "tool", "toolCallId": key, "content": "red"}
    assert text(await events(run(picked), slug="modeled", key=bob_key)) == "What?"
    assert await db.run(Task.objects.filter(state="input-required").count) == 1


async def test_refusals_come_before_the_stream(post, speaking, bob_key):
    assert (await post(run(user("x")), key="")).status_code == 401
    assert (await post(run(user("x")), slug="absent")).status_code == 404
    no_question = run({"id": "a", "role": "assistant", "content": "x"})
    nul = {**run(user("x")), "runId": "\0"}
    for body in (b"{", b"[]", {}, nul, {**run(user("x")), "runId": ""}, no_question):
        response = await post(body, **{"Last-Event-ID": "1"})
        assert (response.status_code, "message" in json.loads(response.content)["error"]) == (400, True)


async def test_pages_of_named_origins_may_call(post, speaking, settings):
    settings.AGUI_ORIGINS = ["https://app.example"]
    for origin, allowed in (("https://app.example", "https://app.example"), ("https://other.example", None)):
        asked = await AsyncClient().options("/agui/speaking", headers={"Origin": origin})
        assert (asked.status_code, asked.get("Access-Control-Allow-Origin")) == (204, allowed)
        refused = await post({}, Origin=origin)
        assert refused.get("Access-Control-Allow-Origin") == allowed


NAMES = "threadId runId messages state tools context forwardedProps resume content role id"
FIELDS = some.sampled_from(NAMES.split())
LISTS = some.lists(some.dictionaries(FIELDS, ANYTHING, max_size=4), max_size=3)
BODY = some.dictionaries(FIELDS, ANYTHING | LISTS, max_size=5)


@budget(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODY)
def test_whatever_a_body_holds_is_read_or_refused(ada, speaking, body):
    with suppress(Refusal):
        agui._message(
            ada.principal, speaking, agui._read({"threadId": "t", "runId": "r", "messages": [user("x")], **body}), {}
        )
