"""A minimal A2A 1.0 client over JSON-RPC."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from benchmarks.http import Connection


class Client(Connection):
    def __init__(self, url: str, key: str) -> None:
        super().__init__(
            url, {"Authorization": f"Bearer {key}", "A2A-Version": "1.0", "Content-Type": "application/json"}
        )

    async def call(self, slug: str, method: str, params: dict[str, Any]) -> Any:
        answer = json.loads(await self.fetch("POST", f"/a2a/{slug}", request(method, params)))
        if "result" not in answer:
            raise RuntimeError(f"{method}: {answer}")
        return answer["result"]

    async def send(self, slug: str, text: str = "hello") -> Any:
        return (await self.call(slug, "SendMessage", said(text)))["task"]

    def send_streaming(self, slug: str, text: str = "hello") -> AsyncGenerator[bytes]:
        return self.stream("POST", f"/a2a/{slug}", request("SendStreamingMessage", said(text)))


def request(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def said(text: str) -> dict[str, Any]:
    return {"message": {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}}
