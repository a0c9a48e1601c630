"""Who may call OpenAI's addresses, and what is refused: no agent works here."""

import json
from contextlib import suppress

import openai
import pytest
from django.test import AsyncClient
from hypothesis import HealthCheck, example, given
from hypothesis import settings as budget
from hypothesis import strategies as some

from apps.accounts.models import ApiKey
from apps.accounts.principals import READ
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.optional.openai import threads
from apps.optional.openai.requests import ChatRequest, ResponseRequest
from apps.record.errors import Refusal
from apps.record.models import Context
from parley import db

pytestmark = pytest.mark.django_db(transaction=True)
HELLO = [{"role": "user", "content": "hello"}]
CHAT, RESPONSES = "chat/completions", "responses"


@pytest.fixture
def post(ada_key):
    async def call(path, body, key=ada_key, content_type="application/json"):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        data = body if isinstance(body, str | bytes) else json.dumps(body)
        answer = await AsyncClient().post(f"/v1/{path}", data, content_type, headers=headers)
        return answer.status_code, json.loads(answer.content).get("error")

    return call


@pytest.fixture
def closed(db):
    return register_hosted("closed", "tests.doors.agents:Greeting", access=Agent.Access.GROUPS)


async def test_models_are_the_agents_of_the_key(client, openai_for, ada, speaking, greeting, closed):
    assert [model.id async for model in client.models.list()] == ["greeting", "speaking"]
    assert (await client.models.retrieve("speaking")).owned_by == "parley"
    only = openai_for((await db.run(lambda: ApiKey.issue(ada, "one", agents=["greeting"])))[1])
    assert [model.id async for model in only.models.list()] == ["greeting"]


async def test_closed_agent_is_like_an_absent_one(post, client, closed):
    bodies = [{"messages": HELLO}, {"messages": HELLO, "stream": True}]
    refused = [await post(CHAT, {"model": model, **body}) for model in ("closed", "absent") for body in bodies]
    refused += [await post(RESPONSES, {"model": model, "input": "hello"}) for model in ("closed", "absent")]
    assert all(one == refused[0] for one in refused)
    assert (refused[0][0], refused[0][1]["code"]) == (404, "model_not_found")
    for model in ("closed", "absent"):
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve(model)


@pytest.mark.parametrize("key", ["", "sk-something"])
async def test_unknown_key_is_told_nothing(post, greeting, key):
    status, error = await post(CHAT, {"model": "greeting", "messages": HELLO}, key)
    assert (status, error["type"]) == (401, "authentication_error")


async def test_a_key_that_may_only_read_sends_nothing(post, ada, greeting):
    reading = (await db.run(lambda: ApiKey.issue(ada, "reads", scopes=[READ])))[1]
    assert (await post(CHAT, {"model": "greeting", "messages": HELLO}, reading))[0] == 403


def holding(kind, **fields):
    return {"model": "speaking", "messages": [{"role": "user", "content": [{"type": kind, **fields}]}]}


CHATTING = {"model": "speaking", "messages": HELLO}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, {"messages": HELLO}, "model"),
        (CHAT, {"model": "speaking"}, "messages"),
        (CHAT, {"model": "speaking", "messages": [*HELLO, {"role": "assistant", "content": "x"}]}, "messages"),
        (CHAT, {**CHATTING, "n": 2}, "n"),
        (CHAT, {"model": "speaking", "messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (CHAT, {"model": "speaking", "messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type"),
        (CHAT, {**CHATTING, "tool_choice": "required"}, "tool_choice"),
        (CHAT, {**CHATTING, "max_tokens": 0}, "max_tokens"),
        (CHAT, {**CHATTING, "response_format": {"type": "json_object"}}, "response_format"),
        (RESPONSES, {"model": "speaking", "input": "x", "text": {"format": {"type": "json_schema"}}}, "text.format"),
        (RESPONSES, {"model": "speaking", "input": [{"role": "odd", "content": "x"}]}, "input[0].role"),
        (CHAT, {**CHATTING, "stream": True, "metadata": {"session": "a\nb"}}, "metadata.session"),
        (CHAT, holding("file", file={"file_id": "f"}), "file_data"),
        (CHAT, holding("image_url", image_url={"url": "http://127.0.0.1/"}), "content[0].url"),
        (RESPONSES, {"model": "speaking", "input": 5}, "input"),
    ],
)
async def test_a_wrong_field_is_named(post, speaking, path, body, param):
    status, error = await post(path, body)
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert error["param"].endswith(param)
    assert await db.run(Context.objects.count) == 0


async def test_wrong_json_and_addresses_are_refused(post, greeting):
    assert (await post(CHAT, "{"))[0] == 400
    assert (await post(CHAT, "[]"))[0] == 400
    assert (await post(CHAT, b"x", content_type="text/plain"))[0] == 415
    assert (await post("models", {}))[0] == 405
    assert (await post("embeddings", {}))[1]["code"] == "unknown_url"


ANYTHING = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = """messages input stream metadata user tools tool_choice tool_calls n stream_options instructions role content
    type text image_url file input_audio previous_response_id call_id output conversation"""
FIELDS = some.sampled_from(NAMES.split())
PART = some.dictionaries(FIELDS, ANYTHING, max_size=4)
ROLE = some.sampled_from(["user", "assistant", "tool"])
MESSAGE = some.fixed_dictionaries({"role": ROLE, "content": ANYTHING | some.lists(PART, max_size=3)})
BODY = some.dictionaries(FIELDS, ANYTHING | some.lists(MESSAGE, max_size=3), max_size=5)


@budget(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=some.sampled_from([ChatRequest, ResponseRequest]), body=BODY)
@example(kind=ChatRequest, body={"messages": [*HELLO, {"role": "assistant", "content": "\u0000"}, *HELLO]})
@example(kind=ResponseRequest, body={"input": [{"role": "user", "content": [{"type": "input_audio"}]}]})
def test_whatever_a_body_holds_is_read_or_refused(ada, speaking, kind, body):
    with suppress(Refusal):
        request = kind.read({"model": "speaking", **body})
        assert isinstance(request.session, str)
        request.wishes(body)
        assert threads.message_of(speaking, request.messages)["parts"]
        threads.session_of(ada.principal, speaking, request.messages)
