"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) of what comes in batches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import StreamingHttpResponse

import db

HEARTBEAT_SECONDS = 15.0
RECHECK_SECONDS = 45.0  # how often it is looked again whether the caller may still hear
BEGUN = b": begun\n\n"  # so that the head of the response is not kept back
ALIVE = b": still here\n\n"
ALIVE_AT = b": still here\nid: %b\n\n"  # no event, but where the next connection is to go on


class EventStream(StreamingHttpResponse):
    """A response that sends frames as they come. It holds no thread while it waits.

    `ended` is called when it is closed, whether it was sent, broke off, or never began.
    """

    def __init__(
        self, frames: AsyncGenerator[bytes], ended: Callable[[], None], headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(frames, content_type="text/event-stream", headers=headers)
        self["Cache-Control"] = "no-store"
        self["X-Accel-Buffering"] = "no"
        self._ended = ended

    def close(self) -> None:
        super().close()
        self._ended()


async def spoken[T](
    batches: AsyncGenerator[T], say: Callable[[T], bytes], alive: Callable[[], bytes] = lambda: ALIVE
) -> AsyncGenerator[bytes]:
    """What `say` makes of each batch, and a sign of life where nothing comes; the batches are closed at the end."""
    coming: asyncio.Task[tuple[T] | None] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(batches))
            done, _ = await asyncio.wait({coming}, timeout=HEARTBEAT_SECONDS)
            if not done:
                yield alive()
                continue
            if (came := coming.result()) is None:
                return
            coming = None
            yield say(came[0])
    finally:
        await _close(batches, coming)


async def watched(frames: AsyncGenerator[bytes], last_words: Callable[[], bytes | None]) -> AsyncGenerator[bytes]:
    """The frames, for as long as their caller may have them: a key is revoked, a token expires, somebody signs out.

    `last_words` says, where the database may be asked, with what to end, or None: go on. It is asked now and then, when
    a frame comes; those that `spoken` gives come at least with every sign of life. That the database is away ends
    nothing.
    """
    clock = asyncio.get_running_loop().time
    checked = clock()
    async with aclosing(frames):
        async for frame in frames:
            if clock() - checked >= RECHECK_SECONDS:
                checked = clock()
                last = None
                with suppress(OperationalError, InterfaceError):
                    last = await db.run(last_words)
                if last is not None:
                    yield last
                    return
            yield frame


async def _next[T](batches: AsyncGenerator[T]) -> tuple[T] | None:
    try:
        return (await anext(batches),)
    except StopAsyncIteration:
        return None


async def _close[T](batches: AsyncGenerator[T], coming: asyncio.Task[tuple[T] | None] | None) -> None:
    """Stop following, also when whoever listened went away in the middle of waiting."""
    if coming is not None:
        coming.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await coming
    await batches.aclose()


def frame(value: Any, *, id_: object = None, event: str = "") -> bytes:
    """One event, with JSON as its data; `id_` is of one line."""
    name = f"event: {event}\n" if event else ""
    key = f"id: {id_}\n" if id_ is not None else ""
    data = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return f"{name}{key}data: {data}\n\n".encode()
