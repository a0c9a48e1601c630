"""What each peer does, whatever its framework. This module imports only the standard library.

The first word of a message selects the behavior; each peer translates the steps for its framework.
"""

from __future__ import annotations

import asyncio
import hashlib
import urllib.request
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal

FILE = bytes(range(256))
NAME = "Acting"
DESCRIPTION = "Does what a test tells it to do."
MODES = ["text/plain", "application/json", "application/octet-stream"]
SKILL = {"id": "act", "name": "Act", "description": DESCRIPTION, "tags": ["test"]}
PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class Given:
    """A file of a message, by content or by URL."""

    name: str
    content: bytes | None = None
    url: str = ""


@dataclass(frozen=True)
class Said:
    """A message. `is_answer`: it answers its task's question."""

    text: str
    files: Sequence[Given] = ()
    is_answer: bool = False


@dataclass(frozen=True)
class Progress:
    text: str


@dataclass(frozen=True)
class Piece:
    artifact_id: str
    text: str = ""
    append: bool = False
    last: bool = True
    content: bytes | None = None


@dataclass(frozen=True)
class End:
    state: Literal["completed", "failed", "rejected", "input-required", "auth-required"]
    text: str


Step = Progress | Piece | End


async def act(said: Said) -> AsyncIterator[Step]:
    """The steps of a turn, in order; the last one is an End. The caller cancels it."""
    word, _, rest = said.text.strip().partition(" ")
    if said.is_answer:
        yield Piece("answer", f"It was {said.text}.")
        yield End("completed", f"It was {said.text}.")
    elif said.files:
        for number, file in enumerate(said.files):
            yield Piece(f"received-{number}", await asyncio.to_thread(_described, file))
        yield End("completed", f"Took {len(said.files)}.")
    elif word in ENDS:
        yield ENDS[word]
    elif word == "chunks":
        async for step in _chunks(*rest.split()):
            yield step
    elif word == "work":
        yield Progress("I have begun.")
        await asyncio.sleep(float(rest or 600))
        yield Piece("answer", "worked")
        yield End("completed", "The work is done.")
    elif word == "file":
        yield Piece("all.bin", content=FILE)
        yield End("completed", "Here it is.")
    else:
        yield Piece("answer", said.text)
        yield End("completed", said.text)


async def _chunks(count: str, pause: str = str(PAUSE_SECONDS)) -> AsyncIterator[Step]:
    for number in range(1, int(count) + 1):
        yield Piece("lines", f"{number}\n", append=number > 1, last=number == int(count))
        await asyncio.sleep(float(pause))
    yield End("completed", "All sent.")


ENDS = {
    "ask": End("input-required", "Which word?"),
    "login": End("auth-required", "Sign in at the desk."),
    "fail": End("failed", "This went wrong, as was asked."),
    "reject": End("rejected", "Not this one."),
}


def described(name: str, content: bytes) -> str:
    return f"{name} {len(content)} {hashlib.sha256(content).hexdigest()}"


def _described(file: Given) -> str:
    if file.content is not None:
        return described(file.name, file.content)
    with urllib.request.urlopen(file.url, timeout=10) as answer:
        return described(file.name, answer.read())


def card(url: str, *interfaces: tuple[str, str], streaming: bool = True, webhooks: bool = True) -> dict[str, object]:
    return {
        "name": NAME,
        "description": DESCRIPTION,
        "version": "1.0.0",
        "supportedInterfaces": [
            {"url": at, "protocolBinding": binding, "protocolVersion": "1.0"} for binding, at in interfaces
        ],
        "capabilities": {"streaming": streaming, "pushNotifications": webhooks},
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [SKILL],
    }
