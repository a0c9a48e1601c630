"""A small ASGI application behind the handlers of `config.asgi`, to see from outside what a web server does.

It counts what has begun and not ended. `python -m tests.serving.edge PORT` serves it as `manage.py serve` would.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from channels.generic.websocket import AsyncWebsocketConsumer  # noqa: E402
from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402
from django.http import HttpRequest, JsonResponse, StreamingHttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

from config import handlers, uvicorn_http  # noqa: E402
from config.handlers import (  # noqa: E402
    Receive,
    RequestLimits,
    SameOrigin,
    Scope,
    Send,
    SocketLimits,
    ToldToTryAgain,
    handle_async,
)

counted = Counter(waiting=0, streaming=0, sent=0, talking=0)


async def counts(request: HttpRequest) -> JsonResponse:
    return JsonResponse(counted)


async def size(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"bytes": len(request.body)})


async def wait(request: HttpRequest) -> JsonResponse:
    counted["waiting"] += 1
    try:
        await asyncio.Event().wait()
    finally:
        counted["waiting"] -= 1
    raise AssertionError("nobody sets the event")


async def stream(request: HttpRequest, chunk: bytes, pause: float) -> StreamingHttpResponse:
    async def chunks() -> AsyncGenerator[bytes]:
        counted["streaming"] += 1
        try:
            while True:
                yield chunk
                counted["sent"] += len(chunk)
                await asyncio.sleep(pause)
        finally:
            counted["streaming"] -= 1

    return StreamingHttpResponse(chunks())


class Parrot(AsyncWebsocketConsumer):
    async def connect(self) -> None:
        counted["talking"] += 1
        await self.accept()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Say it again and again, for a while."""
        for _ in range(20):
            await self.send(text_data=text_data)
            await asyncio.sleep(0.01)

    async def disconnect(self, code: int) -> None:
        counted["talking"] -= 1


async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Its end takes a moment, as that of `config.asgi`."""
    kind = ""
    while kind != "lifespan.shutdown":
        kind = (await receive())["type"]
        await asyncio.sleep(0.1)
        await send({"type": f"{kind}.complete"})


urlpatterns = [
    path("counts", counts),
    path("size", size),
    path("wait", wait),
    path("flood", stream, {"chunk": b"x" * 65536, "pause": 0}),
    path("ticks", stream, {"chunk": b"tick\n", "pause": 0.02}),
]
settings.ROOT_URLCONF = __name__
application = ProtocolTypeRouter(
    {
        "lifespan": lifespan,
        "http": ToldToTryAgain(RequestLimits(handle_async)),
        "websocket": SameOrigin(SocketLimits(Parrot.as_asgi())),
    }
)
handlers.BODY_SECONDS, uvicorn_http.HEAD_SECONDS = 3.0, 1.5
handlers.SOCKET_MESSAGES, handlers.SOCKET_MESSAGES_A_SECOND = 5.0, 0.0
settings.CONNECTIONS_PER_ADDRESS = 60
uvicorn_http.is_counted = lambda address: True

if __name__ == "__main__":
    from config import serving

    serving.STALLED_SECONDS = 2
    serving.serve(application, "127.0.0.1", int(sys.argv[1]), worker=False, ready=lambda: None)
