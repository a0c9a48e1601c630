"""A small ASGI application behind the handlers of `parley.asgi`, to see from outside what a web server does.

It counts what has begun and not ended. `python -m tests.serving.edge PORT` serves it as `manage.py serve` would.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
django.setup()

from channels.generic.websocket import AsyncWebsocketConsumer  # noqa: E402
from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402
from django.http import HttpRequest, JsonResponse, StreamingHttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

from apps.accounts.principals import ANONYMOUS  # noqa: E402
from apps.accounts.requests import bodies  # noqa: E402
from parley import uvicorn_http  # noqa: E402
from parley.serving import handlers  # noqa: E402
from parley.serving.handlers import RequestGuard, SameOrigin, SocketLimits, handle_async  # noqa: E402

counted = Counter(waiting=0, streaming=0, sent=0, talking=0)


async def counts(request: HttpRequest) -> JsonResponse:
    return JsonResponse(counted)


async def size(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"bytes": len(await bodies.read(request, ANONYMOUS, settings.MAX_REQUEST_BYTES))})


async def wait(request: HttpRequest) -> JsonResponse:
    counted["waiting"] += 1
    try:
        await asyncio.Event().wait()
    finally:
        counted["waiting"] -= 1
    raise AssertionError("nobody sets the event")


async def late(request: HttpRequest) -> JsonResponse:
    """Longer than a head may take."""
    await asyncio.sleep(uvicorn_http.HEAD_SECONDS + 0.2)
    return JsonResponse({})


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


urlpatterns = [
    path("counts", counts),
    path("size", size),
    path("wait", wait),
    path("late", late),
    path("flood", stream, {"chunk": b"x" * 65536, "pause": 0}),
    path("ticks", stream, {"chunk": b"tick\n", "pause": 0.02}),
]
settings.ROOT_URLCONF = __name__


async def largest(scope: handlers.Scope) -> int:
    return int(settings.MAX_REQUEST_BYTES)


application = ProtocolTypeRouter(
    {"http": RequestGuard(handle_async, largest), "websocket": SameOrigin(SocketLimits(Parrot.as_asgi()))}
)
handlers.BODY_SECONDS, uvicorn_http.HEAD_SECONDS = 3.0, 1.5
handlers.SOCKET_MESSAGES, handlers.SOCKET_MESSAGES_A_SECOND = 5.0, 0.0
settings.CONNECTIONS_PER_ADDRESS = 60
uvicorn_http.is_counted = lambda address: True

if __name__ == "__main__":
    from parley.serving import server

    server.STALLED_SECONDS = 2
    server.serve(application, "127.0.0.1", int(sys.argv[1]), worker=False, ready=lambda: None)
