"""Sends messages to agents by A2A."""

import uuid
from typing import Any

import httpx


def body(text: str) -> dict[str, Any]:
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}


def headers(key: str, traceparent: str = "") -> dict[str, str]:
    known = {"Authorization": f"Bearer {key}", "A2A-Version": "1.0"}
    return known | ({"traceparent": traceparent} if traceparent else {})


async def ask(http: httpx.AsyncClient, key: str, slug: str, text: str, traceparent: str = "") -> dict[str, Any]:
    """The settled task."""
    answer = await http.post(f"/a2a/{slug}", json=body(text), headers=headers(key, traceparent))
    task: dict[str, Any] = answer.json()["result"]["task"]
    return task
