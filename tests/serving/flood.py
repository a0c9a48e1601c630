"""A server at the port that is its argument, which sends for as long as it is let; `/sent` tells how much that was."""

from __future__ import annotations

import asyncio
import sys

import django

from config.handlers import Receive, Scope, Send, serve_until_disconnect

CHUNK = b"x" * 65536
sent = 0


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/sent":
        await send({"type": "http.response.body", "body": str(sent).encode()})
    else:
        await serve_until_disconnect(flood(send), receive)


async def flood(send: Send) -> None:
    global sent
    while True:
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        sent += len(CHUNK)
        await asyncio.sleep(0)


if __name__ == "__main__":
    django.setup()
    from config import serving

    serving.STALLED_SECONDS = 2
    serving.serve(application, "127.0.0.1", int(sys.argv[1]), worker=False, ready=lambda: None)
