"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) from a stream of updates."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

from django.http import StreamingHttpResponse

from apps.a2a.streams import Update, Updates

log = logging.getLogger("parley.a2a")

HEARTBEAT_SECONDS = 15.0
Wrap = Callable[[Any], Any]


def event_stream(updates: Updates, wrap: Wrap, failed: Callable[[Exception], Any]) -> StreamingHttpResponse:
    """A response that sends each update, `wrap`ped, with its event's index as `id`.

    `failed` makes the last event of a stream that breaks. It holds no thread and no connection while it waits.
    """
    response = StreamingHttpResponse(frames(updates, wrap, failed), content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


async def frames(updates: Updates, wrap: Wrap, failed: Callable[[Exception], Any]) -> AsyncGenerator[bytes]:
    """The bytes to send: what was recorded together goes out together, and a comment where nothing happens."""
    coming: asyncio.Task[list[Update] | None] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(updates))
            done, _ = await asyncio.wait({coming}, timeout=HEARTBEAT_SECONDS)
            if not done:
                yield b": still here\n\n"
                continue
            if (batch := coming.result()) is None:
                return
            coming = None
            yield b"".join(_frame(index, wrap(response)) for index, response in batch)
    except Exception as error:
        log.exception("a stream broke")
        yield b"data: " + _json(failed(error)) + b"\n\n"
    finally:
        await _close(updates, coming)


async def _next(updates: Updates) -> list[Update] | None:
    return await anext(updates, None)


async def _close(updates: Updates, coming: asyncio.Task[list[Update] | None] | None) -> None:
    """Stop following, also when whoever listened went away in the middle of waiting."""
    if coming is not None:
        coming.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await coming
    await updates.aclose()


def _frame(index: int, value: Any) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (index, _json(value))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
