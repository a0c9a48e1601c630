"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) from a stream of updates."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.http import StreamingHttpResponse

from apps.a2a.errors import JSON
from apps.a2a.streams import Update, Updates

log = logging.getLogger("parley.a2a")

HEARTBEAT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Wording:
    """How a binding says updates, and the error that is the last event of a stream that breaks."""

    update: Callable[[JSON], JSON]
    error: Callable[[Exception], JSON]
    error_event: bytes = b""  # its name, where it has one


class EventStream(StreamingHttpResponse):
    """A response that sends each update with its event's index as `id`. It holds no thread while it waits.

    `ended` is called when it is closed, whether it was sent, broke off, or never began.
    """

    def __init__(self, updates: Updates, wording: Wording, headers: dict[str, str], ended: Callable[[], None]) -> None:
        super().__init__(frames(updates, wording), content_type="text/event-stream", headers=headers)
        self["Cache-Control"] = "no-store"
        self["X-Accel-Buffering"] = "no"
        self._ended = ended

    def close(self) -> None:
        super().close()
        self._ended()


async def frames(updates: Updates, wording: Wording) -> AsyncGenerator[bytes]:
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
            yield b"".join(_frame(index, wording.update(response)) for index, response in batch)
    except Exception as error:
        log.exception("a stream broke")
        name = b"event: %b\n" % wording.error_event if wording.error_event else b""
        yield b"%bdata: %b\n\n" % (name, _json(wording.error(error)))
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
