"""A session is exported in three forms, and imported conversations can be gone on with."""

import uuid

import pytest
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from apps.optional.transfers.api import openai_messages
from apps.optional.transfers.importing import import_file
from apps.record import projection
from apps.record.models import Context
from parley import db
from tests.transfers import samples

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES = TypeAdapter(list[ChatCompletionMessageParam])


async def imported(caller, content, agent="echo", **more):
    upload = await caller.ask("POST", "/uploads?filename=a.json", content, {"content-type": "application/octet-stream"})
    assert upload.status == 201, upload.content
    return await caller.post("/imports", {"agent": agent, "uploadId": upload.body["id"], **more})


async def test_imported_conversation_is_history_for_the_agent(ada_calls, echo):
    answer = await imported(ada_calls, samples.as_bytes(samples.chatgpt()))
    assert answer.status == 200, answer.content
    [result] = answer.body["results"]
    assert (result["title"], result["outcome"], answer.body["remaining"]) == ("Rivers", "created", 0)
    session = result["sessionId"]
    assert (await imported(ada_calls, samples.as_bytes(samples.chatgpt()))).body["results"][0]["sessionId"] == session
    sent = await ada_calls.post(f"/sessions/{session}/messages", {"text": "Go on"})
    assert sent.status in (200, 201, 202), sent.content
    whole = (await ada_calls.get(f"/sessions/{session}")).body
    assert [one["content"] for one in whole["messages"]][:3] == ["Which river?", "Danube", "Go on"]
    assert await db.run(projection.differences, uuid.UUID(session)) == []


async def test_exported_session_can_be_imported_by_others(ada_calls, bob_calls, ada, echo):
    content = samples.as_bytes(samples.chatgpt())
    [result] = (await db.run(import_file, ada.principal, echo, content)).results
    exported = await ada_calls.get(f"/sessions/{result.session}/export")
    assert exported.headers["content-disposition"].startswith("attachment")
    [theirs] = (await imported(bob_calls, exported.content)).body["results"]
    said = (await bob_calls.get(f"/sessions/{theirs['sessionId']}")).body["messages"]
    assert [(one["role"], one["content"]) for one in said] == [("user", "Which river?"), ("agent", "Danube")]


async def test_markdown_and_openai_messages_have_every_turn(ada_calls, ada, echo):
    [result] = (await db.run(import_file, ada.principal, echo, samples.as_bytes(samples.chatgpt()))).results
    path = f"/sessions/{result.session}/export"
    text = (await ada_calls.get(f"{path}?format=markdown")).content.decode()
    assert "Which river?" in text
    assert "gpt-5" in text
    messages = (await ada_calls.get(f"{path}?format=openai")).body
    assert messages == [{"role": "user", "content": "Which river?"}, {"role": "assistant", "content": "Danube"}]
    assert (await ada_calls.get(f"{path}?format=pdf")).fields == ["format"]


def test_openai_export_has_tool_calls_before_answers():
    call = {"callId": "1", "name": "add", "arguments": {"a": 1}, "result": {"sum": 1}, "isError": False}
    parts = [{"text": "One"}, {"url": "https://a.test/f", "filename": "f"}]
    said = openai_messages({"role": "agent", "parts": parts, "metadata": {"toolCalls": [call]}})
    MESSAGES.validate_python(said)
    assert [one["role"] for one in said] == ["assistant", "tool", "assistant"]
    assert said[0]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 1}'}


async def test_wrong_imports_are_refused_by_field(ada_calls, bob_calls, reads, echo):
    assert (await imported(ada_calls, b"[]")).fields == ["file"]
    assert (await imported(ada_calls, b"[]", agent="nobody")).fields == ["agent"]
    unknown = {"agent": "echo", "uploadId": str(uuid.uuid4())}
    assert (await ada_calls.post("/imports", unknown)).status == 404
    assert (await reads.post("/imports", unknown)).status == 403


async def test_dry_run_lists_what_would_be_imported(ada_calls, echo):
    content = samples.as_bytes(samples.chatgpt("a"), samples.chatgpt("b"))
    preview = (await imported(ada_calls, content, dryRun=True)).body
    assert [one["outcome"] for one in preview["results"]] == ["ready", "ready"]
    assert (preview["sessions"], preview["branches"]) == (2, 2)
    first, second = preview["results"]
    assert (first["program"], first["beganAt"][:10]) == ("ChatGPT", "2023-11-14")
    assert not await Context.objects.aexists()
    done = (await imported(ada_calls, content, only=[second["key"]])).body
    assert [(one["title"], one["outcome"]) for one in done["results"]] == [("b", "created")]
    again = (await imported(ada_calls, content, dryRun=True)).body
    assert [one["outcome"] for one in again["results"]] == ["ready", "existing"]
