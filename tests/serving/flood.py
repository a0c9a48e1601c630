"""An ASGI application under Daphne's limits that sends for as long as it is let; `/sent` tells how much that was."""

from __future__ import annotations

import asyncio

from config import daphne_limits
from config.direct import Receive, Scope, Send, until_gone

CHUNK = b"x" * 65536
daphne_limits.STALLED_SECONDS = 2.0
daphne_limits.install()
sent = 0


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/sent":
        await send({"type": "http.response.body", "body": str(sent).encode()})
    else:
        await until_gone(flood(send), receive)


async def flood(send: Send) -> None:
    global sent
    while True:
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        sent += len(CHUNK)
        await asyncio.sleep(0)
