"""A server at the given port that sends without end; `/sent` returns how much."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator

import django
from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from config.handlers import handle_async

CHUNK = b"x" * 65536
sent = 0


async def count(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(sent))


async def flood(request: HttpRequest) -> StreamingHttpResponse:
    async def chunks() -> AsyncGenerator[bytes]:
        global sent
        while True:
            yield CHUNK
            sent += len(CHUNK)
            await asyncio.sleep(0)

    return StreamingHttpResponse(chunks())


urlpatterns = [path("sent", count), path("", flood)]

if __name__ == "__main__":
    django.setup()
    settings.ROOT_URLCONF = "tests.serving.flood"
    settings.ALLOWED_HOSTS = ["*"]
    from config import serving

    serving.STALLED_SECONDS = 2
    serving.serve(handle_async, "127.0.0.1", int(sys.argv[1]), worker=False, ready=lambda: None)
