"""Has files read by a process of their own, which a hostile file can end, and fetches pages."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urljoin

from agentkit.content.messages import guessed_media_type
from apps.optional.knowledge.extraction import TOO_MUCH, Read
from apps.optional.knowledge.passages import Piece
from parley import outbound
from parley.outbound import Answer, Exchange, Limits, Redirected

MOST_BYTES = 32 * 1024 * 1024  # of a file
MOST_ANSWERED = 64 * 1024 * 1024  # bytes that the process may say
SECONDS = 180.0  # for one file, on a busy machine
BOOT = "import sys; sys.path[:] = sys.argv[1:]; from apps.optional.knowledge.extraction import main; main()"


class Unreadable(Exception):
    """A source cannot be read. The message says why, for people; `is_lasting`: trying again would not help."""

    def __init__(self, sentence: str, *, is_lasting: bool = True) -> None:
        super().__init__(sentence)
        self.is_lasting = is_lasting


async def read(content: bytes, media_type: str, name: str) -> Read:
    """The passages of a file. Raises Unreadable."""
    if len(content) > MOST_BYTES:
        raise Unreadable(f"It is larger than {MOST_BYTES // 1024**2} MB. Split it.")
    essence, _, parameters = media_type.lower().partition(";")
    charset = re.search(r"charset=\"?([\w.-]+)", parameters)
    stated = {"media_type": essence.strip(), "name": name, "charset": charset[1] if charset else ""}
    answer = json.loads(await _answer(json.dumps(stated).encode() + b"\n" + content) or b"{}")
    if "passages" not in answer:
        raise Unreadable(answer.get("problem", TOO_MUCH))
    return Read([Piece(*one) for one in answer["passages"]], answer["title"], answer["is_whole"])


async def _answer(question: bytes) -> bytes:
    """What the process says; nothing if it ends before."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", BOOT, *(path or os.getcwd() for path in sys.path),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={}, process_group=0,
    )  # fmt: skip  # without the environment, which has secrets
    try:
        async with asyncio.timeout(SECONDS):
            _, answer = await asyncio.gather(_tell(process.stdin, question), _heard(process.stdout))
            return answer if await process.wait() == 0 else b""
    except (TimeoutError, _TooLong):
        return b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class _TooLong(Exception):
    """The process says more than a source can have."""


async def _tell(pipe: asyncio.StreamWriter | None, question: bytes) -> None:
    assert pipe is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # it ended before it read all
        pipe.write(question)
        await pipe.drain()
    pipe.close()


async def _heard(pipe: asyncio.StreamReader | None) -> bytes:
    """All that the process says. Raises _TooLong."""
    assert pipe is not None
    heard = bytearray()
    while some := await pipe.read(2**16):
        heard += some
        if len(heard) > MOST_ANSWERED:
            raise _TooLong
    return bytes(heard)


# Pages

PAGE_LIMITS = Limits(seconds=30.0, bytes=10 * 1024 * 1024, connections=2)
MOST_REDIRECTS = 5
LONGEST_NAME = 200  # characters
TEXT_TYPES = re.compile(
    r"text/.+|application/(json|xml|pdf|xhtml\+xml|yaml)|application/.+\+(json|xml)|application/vnd\.openxml.+",
    re.IGNORECASE,
)
CONDITIONS = ("If-None-Match", "If-Modified-Since")
VALIDATOR = re.compile(r"[ -~]{1,300}")  # ETag or Last-Modified
LASTING = frozenset({400, 401, 403, 404, 405, 406, 410, 451})  # statuses that a later try does not change


def page_name(url: str) -> str:
    """What a page is called until its title is known: its address. A long one ends with a digest, to be its own."""
    name = url.partition("://")[2]
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name[: LONGEST_NAME - len(digest) - 1]}…{digest}"


@dataclass(frozen=True, slots=True)
class Page:
    """What was fetched. `etag` and `last_modified`: its HTTP validators, or ""."""

    content: bytes
    media_type: str
    etag: str = ""
    last_modified: str = ""


async def fetch(url: str, etag: str = "", last_modified: str = "") -> Page | None:
    """The page; None if its validators say that it is unchanged. Redirects are followed. Raises Unreadable."""
    conditions = dict(zip(CONDITIONS, (etag, last_modified), strict=True))
    headers = {"Accept": "text/html, text/*;q=0.9, */*;q=0.5", "User-Agent": "Parley"}
    headers |= {name: value for name, value in conditions.items() if value}
    try:
        async with asyncio.timeout(PAGE_LIMITS.seconds), outbound.exchange(PAGE_LIMITS) as way:
            for _ in range(MOST_REDIRECTS + 1):
                try:
                    return await _fetch(way, url, headers)
                except Redirected as redirect:
                    url = _target(url, redirect.location)
        raise Unreadable("The page leads from one address to the next without an end.")
    except outbound.Forbidden as error:
        raise Unreadable(str(error)) from error
    except outbound.OutboundError as error:
        raise Unreadable(str(error), is_lasting=isinstance(error, outbound.TooLarge)) from error
    except TimeoutError:
        raise Unreadable("The page did not come in time.", is_lasting=False) from None


def _target(url: str, location: str) -> str:
    """Raises Unreadable."""
    try:
        return urljoin(url, location)
    except ValueError:
        raise Unreadable("The page leads to an address that is none.") from None


async def _fetch(way: Exchange, url: str, headers: dict[str, str]) -> Page | None:
    async with way.send("GET", url, headers) as answer:
        if answer.status == 304 and any(one in headers for one in CONDITIONS):
            return None
        if answer.status != 200:
            sentence = f"The page answers with the status {answer.status}."
            raise Unreadable(sentence, is_lasting=answer.status in LASTING)
        media_type = _header(answer, b"content-type") or guessed_media_type(url) or "text/html"
        if not TEXT_TYPES.match(media_type):
            raise Unreadable(f"It is no page with text, but {media_type.partition(';')[0]}.")
        content = await answer.read()
    etag, last_modified = (_header(answer, name) for name in (b"etag", b"last-modified"))
    return Page(content, media_type, etag, last_modified)


def _header(answer: Answer, name: bytes) -> str:
    values = [value.decode("latin-1") for header, value in answer.headers if header.lower() == name]
    return values[0] if len(values) == 1 and VALIDATOR.fullmatch(values[0]) else ""
