"""What is said twice is refused: two readers may choose differently."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.test import AsyncClient

from apps.record.models import Message
from tests.security.knocking import said

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("speaking")]

WORDS = json.dumps(said("hello"))
OTHERS = json.dumps(said("something else"))
IDS = uuid.uuid4().hex


def rpc(method: str, params: str) -> str:
    return f'{{"jsonrpc": "2.0", "id": 1, {method}, "params": {{{params}}}}}'


SEND, CHAT = '"method": "SendMessage"', '"messages": [{"id": "1", "role": "user", "content": "x"}]'
IN_BODIES = [
    ("/a2a/speaking", rpc(f'"method": "GetTask", {SEND}', f'"message": {WORDS}')),
    ("/a2a/speaking", rpc(SEND, f'"message": {WORDS}, "message": {OTHERS}')),
    ("/a2a", rpc(SEND, f'"tenant": "x", "tenant": "speaking", "message": {WORDS}')),
    ("/a2a/speaking/message:send", f'{{"message": {WORDS}, "message": {OTHERS}}}'),
    ("/api/v1/sessions", '{"agent": "other", "agent": "speaking"}'),
    ("/v1/chat/completions", f'{{"model": "other", "model": "speaking", {CHAT}}}'),
    ("/v1/responses", '{"model": "speaking", "input": "x", "input": "y"}'),
    ("/agui/speaking", f'{{"threadId": "a", "threadId": "b", "runId": "{IDS}", {CHAT}}}'),
    ("/langgraph/runs/wait", '{"assistant_id": "other", "assistant_id": "speaking", "input": {"messages": "x"}}'),
    ("/mcp", rpc('"method": "tools/call"', '"name": "x", "name": "speaking", "arguments": {"message": "x"}')),
]
IN_QUERIES = [
    "/a2a/speaking/tasks?pageSize=1&pageSize=2",
    "/a2a/speaking/tasks?contextId=a&contextId=b",
    "/a2a/speaking/tasks/x?historyLength=1&historyLength=2",
    "/api/v1/sessions?limit=1&limit=2",
    "/api/v1/tasks?session=a&session=b",
]


def headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", "A2A-Version": "1.0", "Idempotency-Key": uuid.uuid4().hex}


def is_error(answer: Any) -> bool:
    return answer.status_code in (400, 422) or "error" in answer.json()


OTHERWISE = [
    ("/a2a/speaking/message:send", f'{{"tenant": "other", "message": {WORDS}}}'),
    ("/a2a/speaking", rpc('"method": "ListTasks"', '"tenant": "other"')),
]


async def test_a_name_twice_or_a_contradiction_is_refused(ada_key):
    for path, body in (*IN_BODIES, *OTHERWISE):
        answer = await AsyncClient().post(path, body, "application/json", headers=headers(ada_key))
        assert not answer.streaming, path
        assert is_error(answer), answer.text
    for path in IN_QUERIES:
        answer = await AsyncClient().get(path, headers=headers(ada_key))
        assert answer.status_code in (400, 422), answer.text
    assert not await Message.objects.aexists()
