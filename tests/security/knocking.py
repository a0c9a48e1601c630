"""The same words to the same agent by every door, as a program with a key."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from django.test import AsyncClient

JSON = dict[str, Any]
Knock = Callable[[str, str, str, str], Awaitable[str]]
"""Key, agent, words and the name of a session ("": a new one), to all that is answered."""


def said(text: str, session: str = "", **more: Any) -> JSON:
    place = {"contextId": session} if session else {}
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **place, **more}


async def post(path: str, body: JSON | str, key: str, **headers: str) -> str:
    """What is answered, of a stream its whole."""
    content = body if isinstance(body, str) else json.dumps(body)
    named = {"Authorization": f"Bearer {key}", "A2A-Version": "1.0", **headers}
    answer = await AsyncClient().post(path, content, "application/json", headers=named)
    if answer.streaming:
        return b"".join([chunk async for chunk in answer]).decode()
    return str(answer.text)


async def json_rpc(key: str, agent: str, text: str, session: str) -> str:
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said(text, session)}}
    return await post(f"/a2a/{agent}", body, key)


async def rest(key: str, agent: str, text: str, session: str) -> str:
    return await post(f"/a2a/{agent}/message:send", {"message": said(text, session)}, key)


async def front_door(key: str, agent: str, text: str, session: str) -> str:
    params = {"tenant": agent, "message": said(text, session)}
    return await post("/a2a", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}, key)


async def chat_completions(key: str, agent: str, text: str, session: str) -> str:
    body = {"model": agent, "messages": [{"role": "user", "content": text}]}
    headers = {"X-Parley-Session": session} if session else {}
    return await post("/v1/chat/completions", body, key, **headers)


async def responses(key: str, agent: str, text: str, session: str) -> str:
    body = {"model": agent, "input": text, **({"previous_response_id": session} if session else {})}
    return await post("/v1/responses", body, key)


async def ag_ui(key: str, agent: str, text: str, session: str) -> str:
    message = {"id": uuid.uuid4().hex, "role": "user", "content": text}
    run = {"threadId": session or uuid.uuid4().hex, "runId": uuid.uuid4().hex, "messages": [message]}
    return await post(f"/agui/{agent}", run, key)


async def langgraph(key: str, agent: str, text: str, session: str) -> str:
    path = f"/langgraph/threads/{session}/runs/wait" if session else "/langgraph/runs/wait"
    return await post(path, {"assistant_id": agent, "input": {"messages": text}}, key)


async def mcp_session(key: str, agent: str, text: str, session: str) -> str:
    return await _tool(key, agent, {"message": text, **({"session": session} if session else {})})


async def mcp_task(key: str, agent: str, text: str, session: str) -> str:
    return await _tool(key, agent, {"message": text, **({"task": session} if session else {})})


async def _tool(key: str, agent: str, arguments: JSON) -> str:
    params = {"name": agent, "arguments": arguments}
    headers = {"accept": "application/json", "mcp-protocol-version": "2025-11-25"}
    return await post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, key, **headers)


async def client_api(key: str, agent: str, text: str, session: str) -> str:
    """Begins a session first, unless it is named."""
    if not session:
        session = json.loads(await post("/api/v1/sessions", {"agent": agent}, key))["session"]["id"]
    keyed = {"Idempotency-Key": uuid.uuid4().hex}
    return await post(f"/api/v1/sessions/{session}/messages", {"text": text}, key, **keyed)


DOORS: dict[str, Knock] = {
    one.__name__: one
    for one in (
        json_rpc, rest, front_door, chat_completions, responses, ag_ui, langgraph, mcp_session, mcp_task, client_api,
    )
}  # fmt: skip
