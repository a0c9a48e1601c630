"""A stream of updates as server-sent events, in the words of a binding."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from apps.a2a.errors import JSON
from apps.a2a.streams import Update, Updates
from apps.conversations import sse

log = logging.getLogger("parley.a2a")


@dataclass(frozen=True, slots=True)
class Wording:
    """How a binding says updates, and the error that is the last event of a stream that breaks."""

    update: Callable[[JSON], JSON]
    error: Callable[[Exception], JSON]
    error_event: str = ""  # its name, where it has one


class EventStream(sse.EventStream):
    """A response that sends each update with its event's index as `id`."""

    def __init__(self, updates: Updates, wording: Wording, headers: dict[str, str], ended: Callable[[], None]) -> None:
        super().__init__(frames(updates, wording), ended, headers)


async def frames(updates: Updates, wording: Wording) -> AsyncGenerator[bytes]:
    """The bytes to send: what was recorded together goes out together."""

    def said(batch: list[Update]) -> bytes:
        return b"".join(sse.frame(wording.update(response), id_=index) for index, response in batch)

    try:
        async with aclosing(sse.spoken(updates, said)) as spoken:
            async for frame in spoken:
                yield frame
    except Exception as error:
        log.exception("a stream broke")
        yield sse.frame(wording.error(error), event=wording.error_event)
