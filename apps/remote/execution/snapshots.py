"""The snapshot for a remote agent: an A2A message made from the record only, and stored with the run.

It is `{"message", "until"}`. Large parts refer to stored content. A part that is too large to send becomes a signed
link to a part of the snapshot, valid until that Unix time.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse

from agentkit import Message as Said
from agentkit import ReferencedTask
from apps.agents import cards
from apps.agents.options import declared_extension, options_extension
from apps.conversations.public_links.downloads import MEDIA_TYPE
from apps.engine.accept import DEPENDS_ON
from apps.engine.turns import payments
from apps.engine.turns.assignment import Assignment, handler_message
from apps.record import briefings
from apps.record.content import blobs
from apps.record.content.composing import compose
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.models import Message

LONGEST_MESSAGE = 4_000  # characters of an earlier message
LONGEST_HISTORY = 24_000  # characters of all of them
LARGEST_PROJECT_FILE = 64 * 1024  # bytes that are sent along; larger files of a project are links
LARGEST_PROJECT = 256 * 1024  # bytes of all of them
PROJECT_FILE = "project-"
MOST_FILES = 20  # of the history, and of each referenced task

LINK_SALT = "apps.remote.links"


@dataclass(frozen=True, slots=True)
class AgentKnowledge:
    """What the remote agent knows already.

    Attributes:
        task_id, first_task: its newest and its first task for ours; "" for none.
        awaits_answer: does its newest task wait for an answer?
        context_id: its conversation for ours; "" for none.
        newest_message: the id of our newest message that it got in that conversation.
        known_tasks: our tasks whose messages it has.
        references: its tasks, by those of ours that the message refers to.
        has_state: does it get its state of the conversation that a fork continues?
    """

    task_id: str = ""
    first_task: str = ""
    awaits_answer: bool = False
    context_id: str = ""
    newest_message: str = ""
    known_tasks: set[str] = field(default_factory=set)
    references: dict[str, str] = field(default_factory=dict)
    has_state: bool = False


def build_snapshot(assignment: Assignment, knowledge: AgentKnowledge) -> JSON:
    said = assignment.input_message
    untold = [] if knowledge.awaits_answer else _new_messages(assignment, knowledge)
    foreign = [
        task
        for task in assignment.references
        if task.task_id not in knowledge.known_tasks | knowledge.references.keys()
    ]
    parts = [*(dict(part) for part in said.parts), *_reference_parts(foreign, untold), *_history_parts(untold)]
    metadata = {name: value for name, value in said.metadata.items() if name != DEPENDS_ON}  # they have ended
    extensions = list[str]()
    if assignment.options and (uri := options_extension(assignment.agent)):
        metadata, extensions = {**metadata, uri: assignment.options}, [uri]
    for name, one in briefings.briefings().items():  # people's data: only for who asks for it
        if name in assignment.told and (uri := declared_extension(assignment.agent, one.extension)):
            metadata, extensions = {**metadata, uri: assignment.input[name]}, [*extensions, uri]
    message = compose(
        parts,
        key=assignment.lease.run_id,
        context=knowledge.context_id,
        task=knowledge.task_id if knowledge.awaits_answer else None,
        references=_references(knowledge),
        metadata=metadata,
        extensions=extensions,
    )
    return {"message": message, "until": int(time.time() + settings.REMOTE_LINK_SECONDS)}


def render_message(snapshot: JSON, run: object, task: uuid.UUID, *, as_links: bool = False) -> JSON:
    """The message to send, with files inline, or `as_links`; large files are always links. Reads files.

    A payment that was sealed for the task is in it, and nowhere else.
    """
    message = dict(snapshot["message"])
    if "metadata" in message:
        message["metadata"] = payments.with_payload(message["metadata"], task)
    for uri, one in _briefings_in(snapshot).items():
        told = one.read(message["metadata"][uri]) or {}
        if files := told.get("files"):
            told["files"] = list(_render_project_files(files, run, snapshot, as_links))
        message["metadata"] = {**message["metadata"], uri: told}
    parts = [_render_part(part, run, str(number), snapshot, as_links) for number, part in enumerate(message["parts"])]
    return {**message, "parts": parts}


def _render_project_files(files: Iterable[JSON], run: object, snapshot: JSON, as_links: bool) -> Iterator[JSON]:
    """Those that were removed from the project since the turn began are left out."""
    room = LARGEST_PROJECT
    for number, part in enumerate(files):
        size = part["stored"]["size"]
        is_linked = as_links or size > min(room, LARGEST_PROJECT_FILE)
        with suppress(FileNotFoundError):
            yield _render_part(part, run, f"{PROJECT_FILE}{number}", snapshot, is_linked)
            room -= 0 if is_linked else size


def _briefings_in(snapshot: JSON) -> dict[str, briefings.Briefing]:
    """What the agent is told beside the message, by the URIs in its metadata."""
    message = snapshot["message"]
    stated = [uri for uri in message.get("metadata", {}) if uri in message.get("extensions", ())]
    known = briefings.briefings().values()
    return {uri: one for uri in stated for one in known if uri.endswith(one.extension)}


def _render_part(part: JSON, run: object, number: str, snapshot: JSON, as_links: bool) -> JSON:
    size = part["stored"]["size"] if "stored" in part else 0
    is_linked = size > settings.REMOTE_INLINE_BYTES or (as_links and ("raw" in part or "stored" in part))
    if not is_linked:
        return blobs.inline(part)
    labels = {name: part[name] for name in ("filename", "mediaType", "metadata") if part.get(name)}
    return {"url": file_link(run, number, snapshot["until"], part.get("filename", "")), **labels}


def steering_message(assignment: Assignment, row: Message, remote_task: str) -> JSON | None:
    """A message of the record for the remote task at work; None for one whose files would be links. Reads files."""
    if any(part.get("stored", {}).get("size", 0) > settings.REMOTE_INLINE_BYTES for part in row.parts):
        return None
    said = handler_message(row, assignment.task.context)
    return compose([blobs.inline(dict(part)) for part in said.parts], key=row.pk, task=remote_task)


def needs_reading(snapshot: JSON) -> bool:
    """Does the message to send have what is stored elsewhere: files, a payment, what the agent is told beside it?"""
    has_payment = payments.AUTHORIZATION in snapshot["message"].get("metadata", {})
    return has_payment or has_files(snapshot) or bool(_briefings_in(snapshot))


def has_files(snapshot: JSON) -> bool:
    return any("raw" in part or "stored" in part for part in snapshot["message"]["parts"])


def _new_messages(assignment: Assignment, knowledge: AgentKnowledge) -> list[Said]:
    history = assignment.history
    knows_conversation = knowledge.context_id or knowledge.has_state
    if knows_conversation and knowledge.newest_message:
        at = next((n for n in range(len(history) - 1, -1, -1) if history[n].id == knowledge.newest_message), -1)
        history = history[at + 1 :]
    if knows_conversation:
        history = [message for message in history if message.wire.get("taskId") not in knowledge.known_tasks]
    if not history:
        return []
    remote = getattr(assignment.agent, "remote", None)
    most = int(getattr(remote, "history_messages", settings.REMOTE_HISTORY_MESSAGES))
    return history[-most:] if most else []


def _references(knowledge: AgentKnowledge) -> list[str]:
    named = list(knowledge.references.values())
    if knowledge.task_id and not knowledge.awaits_answer:
        named.append(knowledge.task_id)
    return list(dict.fromkeys(named))


def _history_parts(messages: list[Said]) -> Iterator[JSON]:
    lines = [f"{'User' if one.role == 'user' else 'Agent'}: {_shortened(_text_and_files(one))}" for one in messages]
    while lines and sum(map(len, lines)) > LONGEST_HISTORY:
        lines.pop(0)
    if lines:
        yield _with_role({"text": "The conversation so far, for reference:\n\n" + "\n\n".join(lines)}, "history")
    files = [file for message in messages for file in message.files]
    for file in files[-MOST_FILES:]:
        yield _with_role(dict(file.part), "history")


def _reference_parts(tasks: Iterable[ReferencedTask], history: list[Said]) -> Iterator[JSON]:
    """The question and the results of referenced tasks that the agent does not know, unless in `history`."""
    sent, texts = {message.id for message in history}, {message.text for message in history}
    for task in tasks:
        asked = next((message for message in task.messages if message.role == "user" and message.id not in sent), None)
        parts = [part for artifact in task.artifacts for part in artifact.parts if part.get("text") not in texts]
        if asked is None and not parts:
            continue
        names = ", ".join(artifact.name for artifact in task.artifacts if artifact.name)
        lines = [f"An earlier task ({task.task_id}) is {task.state}{f' and delivered {names}' if names else ''}."]
        if asked is not None:
            lines.append(f"It was: {_shortened(_text_and_files(asked))}")
        yield _with_role({"text": "\n".join(lines)}, "reference")
        for part in parts[:MOST_FILES]:
            text = part.get("text")
            cut = {"text": text[:LONGEST_HISTORY]} if isinstance(text, str) else {}
            yield _with_role({**part, **cut}, "reference")


def _text_and_files(message: Said) -> str:
    names = [file.name or file.media_type for file in message.files]
    files = f" [files: {', '.join(names)}]" if names else ""
    return f"{message.text}{files}".strip()


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]} …"


def _with_role(part: JSON, role: str) -> JSON:
    """Marks a part that is not from the user's message itself (`docs/extensions/history-v1.md`)."""
    metadata: dict[str, Any] = {**(part.get("metadata") or {}), cards.extension_uri("history"): role}
    return {**part, "metadata": metadata}


def file_link(run: object, number: str, until: int, filename: str) -> str:
    """The URL of a part, valid until a Unix time. The same arguments give the same URL.

    `number`: of a part of the message, or after PROJECT_FILE that of a file of the project.
    """
    named = signing.Signer(salt=LINK_SALT).sign(f"{run}.{number}.{until}")
    return f"{settings.PUBLIC_BASE_URL}/gateway/files/{named}/{quote(filename, safe='') or 'file'}"


def linked_file(request: HttpRequest, named: str, filename: str) -> HttpResponse:
    """The content behind a link; 404 if the link is invalid or expired, or its conversation was cleared."""
    part = _linked_part(named)
    if part is None:
        raise Http404
    media_type = part.get("mediaType") or ""
    if not MEDIA_TYPE.fullmatch(media_type):
        media_type = "application/octet-stream"
    try:
        content = blobs.content_of(part)
    except FileNotFoundError:  # of a project, from which it was removed
        raise Http404 from None
    response = HttpResponse(content, content_type=media_type)
    response["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(part.get('filename') or 'file', safe='')}"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox; frame-ancestors 'none'"
    response["Cache-Control"] = "private, no-store"
    return response


def _linked_part(named: str) -> dict[str, Any] | None:
    try:
        run, number, until = signing.Signer(salt=LINK_SALT).unsign(named).split(".")
    except (signing.BadSignature, ValueError):
        return None
    if int(until) < time.time():
        return None
    given = Run.objects.filter(pk=uuid.UUID(run)).values_list("input", flat=True).first() or {}
    parts: list[dict[str, Any]] = given.get("sent", {}).get("message", {}).get("parts", [])
    if number.startswith(PROJECT_FILE):
        parts, number = given.get("project", {}).get("files", []), number.removeprefix(PROJECT_FILE)
    return parts[int(number)] if int(number) < len(parts) else None
