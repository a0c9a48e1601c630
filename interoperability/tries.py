"""What is tried in each direction, and how it is judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from a2a.types import StreamResponse
from a2a.utils.errors import A2AError

from tests.a2a.talking import client, request, text_of, updates
from tests.stack import Stack

JSON = dict[str, Any]
HELLO = "Hello, agent"


@dataclass(frozen=True)
class Outcome:
    """What was tried, and why it failed, if it did."""

    tried: str
    failure: str = ""


def words(got: Any) -> list[str]:
    return [str(state).removeprefix("TASK_STATE_").lower().replace("_", "-") for state in got]


WANTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "message": ("the text once", lambda got: got == "Hello, Parley"),
    "stream": ("3, 2, 1 in pieces", lambda got: [piece.strip() for piece in got][:3] == ["3", "2", "1"]),
    "second turn": ("one context", lambda got: all(got) and len(set(got)) == 1),
    "question": ("input-required, completed", lambda got: words(got) == ["input-required", "completed", "same task"]),
    "cancel": ("canceled", lambda got: words([got]) == ["canceled"]),
    "file": ("its content", lambda got: got == "The content of a file."),
}
"""What a client shall get, in words and as a check."""


def judged(lines: list[JSON]) -> list[Outcome]:
    return [Outcome(line["tried"], failure_of(line)) for line in lines]


def failure_of(line: JSON) -> str:
    if "error" in line:
        return str(line["error"])
    wanted, is_right = WANTED[line["tried"]]
    return "" if is_right(line["got"]) else f"got {json.dumps(line['got'])}, not {wanted}"


# Parley calls


async def outcomes(parley: Stack, slug: str) -> list[Outcome]:
    """What a remote agent that says "TURN: TEXT" answers through Parley."""
    found, context = [], ""
    for tried, wanted, streaming in (
        ("message", f"1: {HELLO}", False),
        ("second turn", f"2: {HELLO}", False),
        ("stream", f"1: {HELLO}", True),
    ):
        try:
            async with client(parley.url, slug, parley.demo_key, streaming=streaming) as agent:
                events = await updates(agent, request(HELLO, context_id=context if tried == "second turn" else ""))
            context, got = events[0].task.context_id or events[0].message.context_id, answer(events)
            found.append(Outcome(tried, "" if got == wanted else f"got {json.dumps(got)}"))
        except A2AError as error:
            found.append(Outcome(tried, f"{type(error).__name__}: {error}"))
    return found


def answer(events: list[StreamResponse]) -> str:
    """The text of a message, or of a task's artifacts, or else of its status."""
    texts: dict[str, str] = {}  # by the artifact's id
    for event in events:
        texts |= {artifact.artifact_id: text_of(artifact) for artifact in event.task.artifacts}
        update = event.artifact_update
        before = texts.get(update.artifact.artifact_id, "") if update.append else ""
        texts[update.artifact.artifact_id] = before + text_of(update.artifact)
    last = events[-1].status_update.status if events[-1].HasField("status_update") else events[-1].task.status
    return "".join(texts.values()) or text_of(events[-1].message) or text_of(last.message)
