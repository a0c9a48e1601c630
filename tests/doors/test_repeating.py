"""Every door recognizes a message that was sent before, by all that it says."""

import base64
import json
import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import AsyncClient

from apps.conversations.sessions import commands
from apps.record.models import Message
from parley import db

pytestmark = pytest.mark.django_db(transaction=True)
ID = str(uuid.uuid4())
NAMED = {"filename": "a.csv", "mediaType": "text/csv"}


def a2a(session, raw):
    message = {"messageId": ID, "role": "ROLE_USER", "contextId": session, "parts": [{"raw": raw, **NAMED}]}
    params = {"message": message, "configuration": {"returnImmediately": True}}
    return "/a2a/speaking", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}


def api(session, raw):
    return f"/api/v1/sessions/{session}/messages", {"text": "hello", "parts": [{"raw": raw, **NAMED}]}


def api_queue(session, raw):
    return f"/api/v1/sessions/{session}/queue", {"text": "hello", "parts": [{"raw": raw, **NAMED}]}


def openai(session, raw):
    content = [{"type": "file", "file": {"filename": "a.csv", "file_data": f"data:text/csv;base64,{raw}"}}]
    messages = [{"role": "user", "content": content}]
    return "/v1/chat/completions", {"model": "speaking", "messages": messages, "metadata": {"session": session}}


def agui(session, raw):
    content = [{"type": "binary", "mimeType": "text/csv", "data": raw, "filename": "a.csv"}]
    said = {"id": "1", "role": "user", "content": content}
    fields = {"tools": [], "context": [], "state": {}, "forwardedProps": {}}
    return "/agui/speaking", {"threadId": session, "runId": ID, "messages": [said], **fields}


def page(session, raw):
    file = SimpleUploadedFile("a.csv", base64.b64decode(raw), "text/csv")
    return f"/sessions/{session}/messages", {"message": ID, "text": "hello", "files": [file]}


def page_queue(session, raw):
    return f"/sessions/{session}/queue", page(session, raw)[1]


@pytest.mark.parametrize(
    ("door", "status", "name"),
    [
        (a2a, 200, "messageId"),
        (api, 422, "Idempotency-Key"),
        (api_queue, 422, "Idempotency-Key"),
        (openai, 400, "Idempotency-Key"),
        (agui, 400, "messageId"),
        (page, 422, "text"),
        (page_queue, 422, "text"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
async def test_same_id_with_other_file_is_refused(ada, ada_key, speaking, worker, door, status, name):
    made = await db.run(commands.create_session, ada.principal, speaking)
    session = str(made.context.pk)
    browser = AsyncClient()
    if door in (page, page_queue):
        await browser.aforce_login(ada)

    async def send(content):
        address, body = door(session, base64.b64encode(content).decode())
        if door in (page, page_queue):
            answer = await browser.post(address, body)
        else:
            headers = {"Authorization": f"Bearer {ada_key}", "Idempotency-Key": ID, "A2A-Version": "1.0"}
            answer = await browser.post(address, json.dumps(body), "application/json", headers=headers)
        if answer.streaming:
            return answer.status_code, str([piece async for piece in answer.streaming_content])
        return answer.status_code, answer.content.decode()

    first, again, other = [await send(content) for content in (b"a,b\n", b"a,b\n", b"c,d\n")]
    assert first[0] == again[0] < 300
    assert other[0] == status
    assert f'"{name}"' in other[1] or f"This {name} was used" in other[1]
    assert await db.run(Message.objects.filter(role="user").count) <= 1, "the queue sends it later"
