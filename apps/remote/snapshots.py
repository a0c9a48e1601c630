"""What a remote agent is sent: an A2A message made of the record alone, kept with the run, sent as it is kept.

The snapshot is `{"message", "until"}`: a message whose large parts still say where their content is kept, and until
when (Unix time) the links are good that stand for them where they are too large to be sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from agentkit import Message as Said
from agentkit import ReferencedTask
from agentkit.messages import File
from apps.agents import cards
from apps.engine.assignments import Assignment
from apps.record import blobs
from apps.record.events import JSON
from apps.remote import links

LONGEST_SAYING = 4_000  # characters of an earlier message that are repeated
LONGEST_TALK = 24_000  # and of all of them together
MOST_FILES = 20  # of the history, and of the tasks that are referred to


@dataclass(frozen=True, slots=True)
class Known:
    """What the remote agent knows already.

    Attributes:
        task_id: its newest task for ours; `asks`: it waits for an answer. `first_task`: its first one.
        context_id: its conversation for ours, in which it keeps what it was told; "" where there is none.
        seen: the id of the newest message here that it was told of, in that conversation.
        own_tasks: our tasks of which it has the messages itself.
        references: its tasks, by ours that are referred to.
    """

    task_id: str = ""
    first_task: str = ""
    asks: bool = False
    context_id: str = ""
    seen: str = ""
    own_tasks: set[str] = field(default_factory=set)
    references: dict[str, str] = field(default_factory=dict)


def build(assignment: Assignment, known: Known) -> JSON:
    """The snapshot of a turn."""
    said = assignment.said
    untold = [] if known.asks else _untold(assignment, known)
    foreign = [task for task in assignment.references if task.task_id not in known.own_tasks | known.references.keys()]
    parts = [*(dict(part) for part in said.parts), *_results(foreign, untold), *_talk(untold)]
    message: JSON = {"messageId": str(assignment.hold.run_id), "role": "ROLE_USER", "parts": parts}
    if known.asks:
        message["taskId"] = known.task_id
    if known.context_id:
        message["contextId"] = known.context_id
    if named := _references(known):
        message["referenceTaskIds"] = named
    if said.metadata:
        message["metadata"] = said.metadata
    return {"message": message, "until": int(time.time() + settings.REMOTE_LINK_SECONDS)}


def rendered(snapshot: JSON, run: object, *, as_links: bool = False) -> JSON:
    """The message to be sent: with files inline, or `as_links` (where they are large, in any case). Reads files."""
    message = snapshot["message"]
    parts = [_part(part, run, number, snapshot, as_links) for number, part in enumerate(message["parts"])]
    return {**message, "parts": parts}


def _part(part: JSON, run: object, number: int, snapshot: JSON, as_links: bool) -> JSON:
    size = part["stored"]["size"] if "stored" in part else 0
    is_linked = size > settings.REMOTE_INLINE_BYTES or (as_links and ("raw" in part or "stored" in part))
    if not is_linked:
        return blobs.inline(part)
    labels = {name: part[name] for name in ("filename", "mediaType", "metadata") if part.get(name)}
    return {"url": links.link(run, number, snapshot["until"], part.get("filename", "")), **labels}


def has_files(snapshot: JSON) -> bool:
    """Is there content that could be sent as a link instead?"""
    return any("raw" in part or "stored" in part for part in snapshot["message"]["parts"])


def _untold(assignment: Assignment, known: Known) -> list[Said]:
    """The last messages of the session that the agent does not know."""
    history = assignment.history
    if known.context_id and known.seen:
        at = next((n for n in range(len(history) - 1, -1, -1) if history[n].id == known.seen), -1)
        history = history[at + 1 :]
    if known.context_id:
        history = [message for message in history if message.wire.get("taskId") not in known.own_tasks]
    most = history_messages(assignment) if history else 0
    return history[-most:] if most else []


def history_messages(assignment: Assignment) -> int:
    """How many messages of the session the agent is told."""
    remote = getattr(assignment.agent, "remote", None)
    return int(getattr(remote, "history_messages", settings.REMOTE_HISTORY_MESSAGES))


def _references(known: Known) -> list[str]:
    """The agent's own tasks that this one follows, each once."""
    named = list(known.references.values())
    if known.task_id and not known.asks:
        named.append(known.task_id)
    return list(dict.fromkeys(named))


def _talk(messages: list[Said]) -> Iterator[JSON]:
    """What was said before, as any agent understands it: text first, then its files."""
    lines = [f"{'User' if one.role == 'user' else 'Agent'}: {_short(_words(one))}" for one in messages]
    while lines and sum(map(len, lines)) > LONGEST_TALK:
        lines.pop(0)
    if lines:
        yield _marked({"text": "The conversation so far, for reference:\n\n" + "\n\n".join(lines)}, "history")
    files = [file for message in messages for file in message.files]
    for file in files[-MOST_FILES:]:
        yield _marked(dict(file.part), "history")


def _results(tasks: Iterable[ReferencedTask], told: list[Said]) -> Iterator[JSON]:
    """The tasks that the message follows and the agent does not know: what was asked, and what was delivered.

    Of what is `told` already nothing is repeated.
    """
    known, texts = {message.id for message in told}, {message.text for message in told}
    for task in tasks:
        asked = next((message for message in task.messages if message.role == "user" and message.id not in known), None)
        parts = [part for artifact in task.artifacts for part in artifact.parts if part.get("text") not in texts]
        if asked is None and not parts:
            continue
        names = ", ".join(artifact.name for artifact in task.artifacts if artifact.name)
        lines = [f"An earlier task ({task.task_id}) is {task.state}{f' and delivered {names}' if names else ''}."]
        if asked is not None:
            lines.append(f"It was: {_short(_words(asked))}")
        yield _marked({"text": "\n".join(lines)}, "reference")
        for part in parts[:MOST_FILES]:
            yield _marked(_bounded(dict(part)), "reference")


def _bounded(part: JSON) -> JSON:
    """Text of a result may be repeated in full as far as a message goes; more of it is in its own file."""
    text = part.get("text")
    return {**part, "text": text[:LONGEST_TALK]} if isinstance(text, str) else part


def _words(message: Said) -> str:
    names = [_name(file) for file in message.files]
    files = f" [files: {', '.join(names)}]" if names else ""
    return f"{message.text}{files}".strip()


def _name(file: File) -> str:
    return file.name or file.media_type


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SAYING else f"{text[:LONGEST_SAYING]} …"


def _marked(part: JSON, role: str) -> JSON:
    """Says of a part that it is not the user's message itself (`docs/extensions/history-v1.md`)."""
    metadata: dict[str, Any] = {**(part.get("metadata") or {}), cards.extension("history"): role}
    return {**part, "metadata": metadata}
