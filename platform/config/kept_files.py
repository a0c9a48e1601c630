"""Files that never change, answered from memory once they have been asked for."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any, NamedTuple

from config.direct import Message, Receive, Scope, Send

MOST_BYTES = 32 * 1024 * 1024  # of all bodies
NEVER_CHANGES = b"immutable"  # in Cache-Control: WhiteNoise says it of names that tell the content
ENCODINGS = tuple(re.compile(rb"\b%b\b" % name) for name in (b"br", b"gzip"))
"""What WhiteNoise looks for in Accept-Encoding, in its way."""
ASKS_FOR_MORE = {b"range", b"if-none-match", b"if-modified-since", b"if-range"}
"""Headers of a request that may be answered with less than the file."""


class Key(NamedTuple):
    """What an answer depends on."""

    scheme: str
    path: str
    encodings: tuple[bool, ...]


class Answer(NamedTuple):
    """What was said in answer to a request, as ASGI's messages."""

    start: Message
    body: bytes


class KeptInMemory:
    """An ASGI application in front of another, which it asks only once for each file that never changes.

    Django gives a request a thread of its own and takes it through all middleware, which costs several times as much
    as to say again what was said; a first page asks for some twenty files. What was asked for least lately goes when
    there are more than `most` bytes.
    """

    def __init__(self, application: Any, most: int = MOST_BYTES) -> None:
        self._application = application
        self._most = most
        self._kept: OrderedDict[Key, Answer] = OrderedDict()
        self._size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key_of(scope)
        if key is None:
            await self._application(scope, receive, send)
        elif key in self._kept:
            self._kept.move_to_end(key)
            start, body = self._kept[key]
            await send(start)
            await send({"type": "http.response.body", "body": body})
        else:
            await self._ask(key, scope, receive, send)

    async def _ask(self, key: Key, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, and keep that if it holds for good."""
        said: list[Message] = []

        async def heard(message: Message) -> None:
            if not said or _never_changes(said[0]):
                said.append(message)
            await send(message)

        await self._application(scope, receive, heard)
        if len(said) > 1 and not said[-1].get("more_body", False):  # otherwise who asked left before the end
            self._keep(key, Answer(said[0], b"".join(message.get("body", b"") for message in said[1:])))

    def _keep(self, key: Key, answer: Answer) -> None:
        if replaced := self._kept.pop(key, None):  # two asked at the same time
            self._size -= len(replaced.body)
        self._kept[key] = answer
        self._size += len(answer.body)
        while self._size > self._most:
            _, gone = self._kept.popitem(last=False)
            self._size -= len(gone.body)


def _key_of(scope: Scope) -> Key | None:
    """None for a request that is not for a whole file."""
    accepted = b""
    for name, value in scope["headers"]:
        if name in ASKS_FOR_MORE:
            return None
        if name == b"accept-encoding":
            accepted = value
    if scope["method"] != "GET":
        return None
    return Key(scope.get("scheme", "http"), scope["path"], tuple(bool(one.search(accepted)) for one in ENCODINGS))


def _never_changes(start: Message) -> bool:
    headers = dict(start["headers"])
    return start["status"] == 200 and NEVER_CHANGES in headers.get(b"Cache-Control", b"")
