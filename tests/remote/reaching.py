"""Calls to servers on this machine, for the tests of the connection."""

from __future__ import annotations

import json
from typing import Any

from a2a.types import AgentCapabilities, AgentCard, AgentInterface

JSON = dict[str, Any]


def card_at(
    url: str, binding: str = "JSONRPC", version: str = "1.0", *, streams: bool = True, tenant: str = ""
) -> AgentCard:
    interface = AgentInterface(url=url, protocol_binding=binding, protocol_version=version, tenant=tenant)
    return AgentCard(
        name="Somebody",
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=streams, push_notifications=True),
    )


def said(text: str, **fields: Any) -> JSON:
    return {"messageId": f"m-{text}", "role": "ROLE_USER", "parts": [{"text": text}], **fields}


def task(state: str = "TASK_STATE_WORKING", **fields: Any) -> JSON:
    return {"id": "t-1", "contextId": "c-1", "status": {"state": state}, **fields}


def result(value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "1", "result": value}).encode()


def event(value: Any) -> bytes:
    return b"data: %b\n\n" % result(value)


def head(kind: str = "application/json", *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """A response's head; without a length the body ends with the connection."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *headers]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def stream(*events: Any) -> bytes:
    return head("text/event-stream") + b"".join(map(event, events))


def answer(value: Any, **options: Any) -> bytes:
    return head(**options) + result(value)
