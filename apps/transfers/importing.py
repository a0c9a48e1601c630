"""Records imported conversations: a session each, whose messages go to the agent that the person chooses as history."""

from __future__ import annotations

import base64
import mimetypes
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from typing import BinaryIO

from django.db import IntegrityError
from django.db.models import TextChoices

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record import ledger
from apps.record.content import blobs
from apps.record.content.parts import HEAD_BYTES, media_type_fields, safe_file_name
from apps.record.content.rendering import shortened_title
from apps.record.errors import StorageFull
from apps.record.events import JSON, EventType, Opening
from apps.record.lookup import check_may_use
from apps.record.models import MAX_TITLE, Context
from apps.transfers.formats import Conversation, Skip, Turn, read_conversations
from apps.transfers.package import Attachment, Package, opened

KEY_NAMESPACE = uuid.UUID("b7b1bb1d-8bb2-5b52-8d7e-1f64a5a8c6a1")
NEW_AT_ONCE = 200  # sessions of one call, which a caller waits for
FILE_BYTES_AT_ONCE = 200 * 1024**2  # of the new sessions' files
FILE_BYTES_OF_ONE = 50 * 1024**2  # of one session's files; small ones are in memory together


class Outcome(TextChoices):
    CREATED = "created"
    EXISTING = "existing"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one conversation. `problem`: why it was skipped. The numbers are those of a new session."""

    title: str
    outcome: Outcome
    session: uuid.UUID | None = None
    problem: str = ""
    messages: int = 0
    files: int = 0
    file_bytes: int = 0
    skipped: Counter[Skip] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Import:
    """`remaining`: the conversations after the last result; the same file again imports the next."""

    results: list[Result]
    remaining: int

    @property
    def new(self) -> list[Result]:
        return [one for one in self.results if one.outcome == Outcome.CREATED]

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.new)

    @property
    def files(self) -> int:
        return sum(one.files for one in self.new)

    @property
    def skipped(self) -> Counter[Skip]:
        """What the new sessions did not get."""
        return sum((one.skipped for one in self.new), Counter())


def import_file(principal: Principal, agent: Agent, content: bytes | BinaryIO) -> Import:
    """Import an exported file of a known caller: at most NEW_AT_ONCE new sessions with the agent.

    A conversation is recorded completely or skipped; one that was imported before keeps its session. Calls no agent.
    Raises InvalidParams for a file that is no export, UnsupportedOperation for an agent that the caller may not use;
    then nothing was recorded.
    """
    check_may_use(principal, agent)
    with closing(opened(content)) as package:
        conversations = read_conversations(package)
        results: list[Result] = []
        new = size = 0
        for conversation in conversations:
            if new == NEW_AT_ONCE or size >= FILE_BYTES_AT_ONCE:
                break
            try:
                results.append(_import_one(principal, agent, conversation, package))
            except StorageFull as full:
                results.append(Result(_title(conversation), Outcome.SKIPPED, problem=str(full)))
                break
            new += results[-1].outcome == Outcome.CREATED
            size += results[-1].file_bytes
    return Import(results, len(conversations) - len(results))


def _import_one(principal: Principal, agent: Agent, conversation: Conversation, package: Package) -> Result:
    """Raises StorageFull."""
    title = _title(conversation)
    if conversation.problem:
        return Result(title, Outcome.SKIPPED, problem=conversation.problem)
    for key in _keys(principal, conversation):
        found = Context.objects.filter(pk=key).only("deleted_at").first()
        if found is None:
            try:
                return _record(principal, agent, key, title, conversation, package)
            except IntegrityError:  # the same file is imported twice at once
                return Result(title, Outcome.EXISTING, key)
        if found.deleted_at is None:
            return Result(title, Outcome.EXISTING, key)
    raise AssertionError("endless")


def _title(conversation: Conversation) -> str:
    title = conversation.title or (shortened_title(conversation.turns[0].text) if conversation.turns else "")
    return title[:MAX_TITLE] or "Imported conversation"


def _keys(principal: Principal, conversation: Conversation) -> Iterator[uuid.UUID]:
    """The session's key by owner and content; the next after each that was deleted."""
    name = f"{principal.user_id} {principal.workspace_id} {conversation.digest}"
    return (uuid.uuid5(KEY_NAMESPACE, f"{name} {attempt}") for attempt in count())


def _record(
    principal: Principal, agent: Agent, key: uuid.UUID, title: str, conversation: Conversation, package: Package
) -> Result:
    """Raises IntegrityError, StorageFull."""
    workspace = principal.workspace_id or agent.workspace_id
    skipped, files, size = Counter(conversation.skipped), 0, 0
    messages = []
    for number, turn in enumerate(conversation.turns):
        parts: list[JSON] = []
        for attachment in turn.attachments:
            content = package.content_of(attachment) if size < FILE_BYTES_OF_ONE else None
            if not content:
                skipped[Skip.UNREADABLE] += 1
                continue
            files, size = files + 1, size + len(content)
            parts += blobs.store_large([_file_part(attachment, content)])
        spoken = [{"text": turn.text}] if turn.text or not parts else []
        messages.append(_message(key, number, turn, spoken + parts))
    blobs.check_room(workspace, [part for one in messages for part in one["parts"]])
    opens: Opening = {
        "contextId": "",
        "owner": principal.user_id,
        "workspace": workspace,
        "agent": agent.pk,
        "title": title,
    }
    with ledger.writing(Context(pk=key)) as log:
        log.add(EventType.SESSION_RENAMED, {"title": title, "opens": log.opening(opens)})
        for turn, message in zip(conversation.turns, messages, strict=True):
            type_ = EventType.USER_MESSAGE if turn.is_user else EventType.AGENT_MESSAGE
            log.add(type_, {"message": message, "imported": turn.imported})
    return Result(title, Outcome.CREATED, key, "", len(messages), files, size, +skipped)


def _file_part(attachment: Attachment, content: bytes) -> JSON:
    typed = media_type_fields(attachment.media_type, content[:HEAD_BYTES])
    name = safe_file_name(attachment.name) if attachment.name else "file"
    if name.endswith(".dat") or "." not in name:  # exports name images so
        name = name.removesuffix(".dat") + (mimetypes.guess_extension(typed["mediaType"]) or "")
    return {"raw": base64.b64encode(content).decode(), "filename": name, **typed}


def _message(session: uuid.UUID, number: int, turn: Turn, parts: list[JSON]) -> JSON:
    return {
        "messageId": str(uuid.uuid5(session, str(number))),
        "contextId": str(session),
        "role": "ROLE_USER" if turn.is_user else "ROLE_AGENT",
        "parts": parts,
        "metadata": {"imported": turn.imported},
    }
