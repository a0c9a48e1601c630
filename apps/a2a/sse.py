"""A stream of updates as server-sent events, in the words of a binding."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from apps.a2a.calls import Answer
from apps.a2a.errors import JSON
from apps.a2a.streams import Update
from apps.accounts.credentials import BadCredentials
from apps.record import sse
from apps.record.errors import Refusal

log = logging.getLogger("parley.a2a")


@dataclass(frozen=True, slots=True)
class Wording:
    """How a binding says updates, and the error that is the last event of a stream that breaks or is ended."""

    update: Callable[[JSON], JSON]
    error: Callable[[Exception], JSON]
    error_event: str = ""  # its name, where it has one


class EventStream(sse.EventStream):
    """A response that sends each update with its event's index as `id`."""

    def __init__(self, answer: Answer, wording: Wording) -> None:
        super().__init__(frames(answer, wording), answer.ended, answer.headers)


async def frames(answer: Answer, wording: Wording) -> AsyncGenerator[bytes]:
    """The bytes to send: what was recorded together goes out together.

    A caller who would not be let in any more is told so, as by an error, and the stream ends.
    """

    def said(batch: list[Update]) -> bytes:
        return b"".join(sse.frame(wording.update(response), id_=index) for index, response in batch)

    def error_frame(error: Exception) -> bytes:
        return sse.frame(wording.error(error), event=wording.error_event)

    def last_words() -> bytes | None:
        try:
            answer.recheck()
        except (BadCredentials, Refusal) as refusal:
            return error_frame(refusal)
        return None

    try:
        async with aclosing(sse.watched(sse.spoken(answer.content, said), last_words)) as watched:
            async for frame in watched:
                yield frame
    except Exception as error:
        log.exception("a stream broke")
        yield error_frame(error)
