"""What an agent answers, bounded in size and time before anything is made of it, and read strictly."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
from django.conf import settings

from apps.engine.cleaning import clean
from apps.record import strict_json
from apps.remote.connecting.frames import Frame, Frames
from apps.remote.errors import CutOff, Misbehaved, RemoteError, Unreachable
from outbound.errors import Forbidden, Misleading, OutboundError, TooLarge, TooSlow, Unsendable, Untrusted

LARGE = 256 * 1024  # bytes; more is not read on the event loop
STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
MENDED = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")  # what may be U+0000 or half of a surrogate pair


@asynccontextmanager
async def answering(host: str) -> AsyncIterator[None]:
    """While an answer's head is waited for, and whatever a credential needs before it. Raises RemoteError.

    The connection has times of its own; this ends a head that comes a byte at a time.
    """
    with failures_of(host):
        async with asyncio.timeout(settings.REMOTE_CONNECT_SECONDS + 2 * settings.REMOTE_IDLE_SECONDS):
            yield


async def whole(response: httpx.Response) -> bytes:
    """The body, which must be there within the idle time. Raises CutOff, Misbehaved."""
    pieces, size = [], 0
    with failures_of(response.request.url.host):
        async with asyncio.timeout(settings.REMOTE_IDLE_SECONDS):
            async for piece in response.aiter_bytes():
                size += len(piece)
                if size > settings.REMOTE_ANSWER_BYTES:
                    raise Misbehaved(f"The agent's answer is larger than {settings.REMOTE_ANSWER_BYTES} bytes.")
                pieces.append(piece)
    return b"".join(pieces)


async def frames(response: httpx.Response) -> AsyncGenerator[Frame]:
    """The events of a stream, as they come. Raises CutOff, Misbehaved.

    Something must come within the idle time, be it a comment, and what has begun must be complete within it: otherwise
    an agent that sends a byte now and then would hold a run for as long as it likes.
    """
    loop, reader = asyncio.get_running_loop(), Frames(settings.REMOTE_ANSWER_BYTES)
    chunks, since = aiter(response.aiter_bytes()), loop.time()
    while True:
        with failures_of(response.request.url.host):
            async with asyncio.timeout_at(since + settings.REMOTE_IDLE_SECONDS):
                chunk = await anext(chunks, None)
        if chunk is None:
            return
        is_fresh = not reader.has_begun
        for frame in reader.feed(chunk):
            is_fresh = True
            if frame is not None:
                yield frame
        if is_fresh:
            since = loop.time()


async def value_of(body: bytes) -> Any:
    """The JSON value of an answer or an event, its strings fit for the record. Raises Misbehaved."""
    return _value_of(body) if len(body) <= LARGE else await asyncio.to_thread(_value_of, body)


def _value_of(body: bytes) -> Any:
    if (
        _values(body) > settings.REMOTE_ANSWER_VALUES
        and _values(STRINGS.sub(b"", body)) > settings.REMOTE_ANSWER_VALUES
    ):
        raise Misbehaved(f"The agent's answer consists of more than {settings.REMOTE_ANSWER_VALUES} values.")
    try:
        value = strict_json.read(body)
    except strict_json.NotStrict as error:
        raise Misbehaved(f"The agent's answer cannot be read. {error}") from None
    return clean(value) if b"\0" in body or MENDED.search(body) else value


def _values(body: bytes) -> int:
    return body.count(b",") + body.count(b"{") + body.count(b"[")


@contextmanager
def failures_of(host: str) -> Iterator[None]:
    """Failures of the connection as ours. Raises Unreachable, CutOff, Misbehaved."""
    try:
        yield
    except TimeoutError:
        raise CutOff(f"{host} fell silent, or was too slow: see REMOTE_IDLE_SECONDS.") from None
    except httpx.HTTPError as error:
        raise _failure(host, error) from error
    except httpx.InvalidURL as error:
        raise Unreachable(f"The agent's address cannot be used: {error}", is_transient=False) from None


def _failure(host: str, error: httpx.HTTPError) -> RemoteError:
    cause = error.__cause__
    if not isinstance(cause, OutboundError):
        return Unreachable(f"{host} was not called: the request cannot be sent as it is.", is_transient=False)
    if isinstance(cause, Forbidden | Unsendable | Untrusted):
        return Unreachable(str(cause), is_transient=False)
    if isinstance(cause, TooLarge | Misleading):
        return Misbehaved(str(cause))
    if cause.was_sent:
        return CutOff(f"The connection to {host} broke off. {cause}")
    if isinstance(cause, TooSlow):
        return Unreachable(f"No connection to {host} came about in time.")
    return Unreachable(str(cause))
