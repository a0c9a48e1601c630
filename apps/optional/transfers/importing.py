"""Records imported conversations: a session each, whose messages go to the agent that the person chooses as history.

`preview` says what an import would do. Branches become forks of the session. All have the dates of their conversation.
"""

from __future__ import annotations

import base64
import datetime
import mimetypes
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import batched, count
from typing import Any, BinaryIO

from django.db import IntegrityError
from django.db.models import TextChoices

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations.forks import forking
from apps.conversations.sessions.models import SessionMark
from apps.optional.transfers.formats import Branch, Conversation, Skip, Turn, in_order, read_conversations
from apps.optional.transfers.package import Attachment, Package, opened
from apps.record import ledger, lineage
from apps.record.content import blobs
from apps.record.content.parts import HEAD_BYTES, is_blank, media_type_fields, safe_file_name
from apps.record.content.rendering import shortened_title
from apps.record.errors import StorageFull
from apps.record.events import DATED, JSON, EventType, Opening
from apps.record.models import MAX_TITLE, Context
from apps.record.reading.lookup import check_may_use
from parley.db.sql import write_transaction

KEY_NAMESPACE = uuid.UUID("b7b1bb1d-8bb2-5b52-8d7e-1f64a5a8c6a1")
NEW_AT_ONCE = 200  # sessions of one call, which a caller waits for
FILE_BYTES_AT_ONCE = 200 * 1024**2  # of the new sessions' files
FILE_BYTES_OF_ONE = 50 * 1024**2  # of one session's files; small ones are in memory together


class Outcome(TextChoices):
    CREATED = "created"
    EXISTING = "existing"
    SKIPPED = "skipped"
    READY = "ready", "ready: an import creates it"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one conversation, or would. `problem`: why it is skipped.

    Attributes:
        key: names the conversation, so that an import can be of some only.
        messages: those of the session itself, without its forks.
        branches: the number of its forks.
        dates: of the conversation's first and last message; None: the export has none.
    """

    title: str
    outcome: Outcome
    session: uuid.UUID | None = None
    problem: str = ""
    messages: int = 0
    files: int = 0
    file_bytes: int = 0
    skipped: Counter[Skip] = field(default_factory=Counter)
    key: str = ""
    source: str = ""
    branches: int = 0
    dates: tuple[datetime.datetime, datetime.datetime] | None = None


@dataclass(frozen=True, slots=True)
class Import:
    """What became of a file's conversations, or would.

    Attributes:
        remaining: the conversations after the last result; the same file again imports the next.
        unread: names of other documents in the ZIP, which are not taken over.
    """

    results: list[Result]
    remaining: int = 0
    unread: tuple[str, ...] = ()

    @property
    def new(self) -> list[Result]:
        return self.of(Outcome.CREATED, Outcome.READY)

    def of(self, *outcomes: Outcome) -> list[Result]:
        return [one for one in self.results if one.outcome in outcomes]

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.new)

    @property
    def files(self) -> int:
        return sum(one.files for one in self.new)

    @property
    def branches(self) -> int:
        return sum(one.branches for one in self.new)

    @property
    def skipped(self) -> Counter[Skip]:
        """What the new sessions do not get."""
        return sum((one.skipped for one in self.new), Counter())

    @property
    def sources(self) -> list[str]:
        """The programs that the conversations come from."""
        return sorted({one.source for one in self.results if one.source})

    @property
    def dates(self) -> tuple[datetime.datetime, datetime.datetime] | None:
        """Of the first and the last message of the new sessions."""
        found = [one.dates for one in self.new if one.dates]
        return (min(one[0] for one in found), max(one[1] for one in found)) if found else None


def preview(principal: Principal, content: bytes | BinaryIO) -> Import:
    """What an import of a file would do. Records nothing. Raises InvalidParams for a file that is no export."""
    package = opened(content)
    conversations = read_conversations(package)
    first = [None if one.problem else next(_keys(principal, one)) for one in conversations]
    found: dict[uuid.UUID, bool] = {}
    for some in batched(filter(None, first), 500):
        rows = Context.objects.filter(pk__in=some).values_list("pk", "deleted_at")
        found |= {key: deleted_at is None for key, deleted_at in rows}
    seen, results = set[uuid.UUID](), list[Result]()
    for one, key in zip(conversations, first, strict=True):
        problem = "It is twice in the file." if key in seen else one.problem
        session = key if key is None or found.get(key, True) else _existing(principal, one)
        if problem or key is None:
            results.append(Result(_title(one), Outcome.SKIPPED, problem=problem, **_about(one)))
        elif key in found and session:
            results.append(Result(_title(one), Outcome.EXISTING, session, **_about(one)))
        else:
            results.append(_ready(one, package))
        seen |= {key} if key else set()
    return Import(results, unread=package.unread)


def _ready(conversation: Conversation, package: Package) -> Result:
    of_branches = (turn for branch in conversation.branches for turn in branch.turns)
    files = [one for turn in (*conversation.turns, *of_branches) for one in turn.attachments]
    too_large = sum(map(package.is_beyond_bounds, files))
    return Result(
        _title(conversation),
        Outcome.READY,
        messages=len(conversation.turns),
        files=len(files) - too_large,
        skipped=+(conversation.skipped + Counter({Skip.UNREADABLE: too_large})),
        branches=len(conversation.branches),
        **_about(conversation),
    )


def _key_of(conversation: Conversation) -> str:
    return conversation.digest[:32]


def _about(conversation: Conversation) -> dict[str, Any]:
    return {"key": _key_of(conversation), "source": conversation.source, "dates": conversation.dates}


def import_file(
    principal: Principal,
    agent: Agent,
    content: bytes | BinaryIO,
    *,
    is_wanted: Callable[[str], bool] = lambda _: True,
) -> Import:
    """Import an exported file of a known caller: at most NEW_AT_ONCE new sessions with the agent.

    `is_wanted` is asked for each conversation by its key. A conversation is recorded completely or skipped; one that
    was imported before keeps its session. Calls no agent.
    Raises InvalidParams for a file that is no export, UnsupportedOperation for an agent that the caller may not use;
    then nothing was recorded.
    """
    check_may_use(principal, agent)
    package = opened(content)
    conversations = [one for one in read_conversations(package) if is_wanted(_key_of(one))]
    results: list[Result] = []
    new = size = 0
    for conversation in conversations:
        if new == NEW_AT_ONCE or size >= FILE_BYTES_AT_ONCE:
            break
        try:
            results.append(_import_one(principal, agent, conversation, package))
        except StorageFull as full:
            about = _about(conversation)
            results.append(Result(_title(conversation), Outcome.SKIPPED, problem=str(full), **about))
            break
        new += results[-1].outcome == Outcome.CREATED
        size += results[-1].file_bytes
    return Import(results, len(conversations) - len(results), package.unread)


def _import_one(principal: Principal, agent: Agent, conversation: Conversation, package: Package) -> Result:
    """Raises StorageFull."""
    title, about = _title(conversation), _about(conversation)
    if conversation.problem:
        return Result(title, Outcome.SKIPPED, problem=conversation.problem, **about)
    for key in _keys(principal, conversation):
        found = Context.objects.filter(pk=key).only("deleted_at").first()
        if found is None:
            try:
                return _Recording(principal, agent, key, package).record(title, conversation)
            except IntegrityError:  # the same file is imported twice at once
                return Result(title, Outcome.EXISTING, key, **about)
        if found.deleted_at is None:
            return Result(title, Outcome.EXISTING, key, **about)
    raise AssertionError("endless")


def _existing(principal: Principal, conversation: Conversation) -> uuid.UUID | None:
    """The session of a conversation that was imported before."""
    for key in _keys(principal, conversation):
        found = Context.objects.filter(pk=key).only("deleted_at").first()
        if found is None:
            return None
        if found.deleted_at is None:
            return found.pk
    raise AssertionError("endless")


def _title(conversation: Conversation) -> str:
    title = conversation.title or (shortened_title(conversation.turns[0].text) if conversation.turns else "")
    title = title[:MAX_TITLE]
    return "Imported conversation" if is_blank(title) else title


def _keys(principal: Principal, conversation: Conversation) -> Iterator[uuid.UUID]:
    """The session's key by owner and content; the next after each that was deleted."""
    name = f"{principal.user_id} {principal.workspace_id} {conversation.digest}"
    return (uuid.uuid5(KEY_NAMESPACE, f"{name} {attempt}") for attempt in count())


@dataclass
class _Recording:
    """Records one conversation as the session of a key, in one transaction."""

    principal: Principal
    agent: Agent
    key: uuid.UUID
    package: Package
    skipped: Counter[Skip] = field(default_factory=Counter)
    files: int = 0
    size: int = 0

    def record(self, title: str, conversation: Conversation) -> Result:
        """Raises IntegrityError, StorageFull."""
        workspace = self.principal.workspace_id or self.agent.workspace_id
        self.skipped.update(conversation.skipped)
        messages, keys = [self._messages(self.key, conversation.turns)], [self.key]
        for number, branch in enumerate(conversation.branches, start=1):
            keys.append(forking.fork_id(Context(pk=keys[branch.path]), _fork_key(number)))
            messages.append(self._messages(keys[-1], branch.turns))
        blobs.check_room(workspace, [part for some in messages for one in some for part in one["parts"]])
        with write_transaction():
            if conversation.branches:
                lineage.lock_shared_logs(workspace)
            paths = [self._session(workspace, title, conversation, messages[0])]
            for number, branch in enumerate(conversation.branches, start=1):
                paths.append(self._fork(number, branch, paths[branch.path], messages[number]))
            if self.principal.user_id is not None:
                SessionMark.objects.bulk_create(
                    SessionMark(user_id=self.principal.user_id, context=one, seen=one.last_event) for one, _, _ in paths
                )
        return Result(
            title,
            Outcome.CREATED,
            self.key,
            messages=len(messages[0]),
            files=self.files,
            file_bytes=self.size,
            skipped=+self.skipped,
            branches=len(conversation.branches),
            **_about(conversation),
        )

    def _session(self, workspace: int, title: str, conversation: Conversation, messages: list[JSON]) -> _Path:
        """The session of the main path."""
        dates = list(in_order(conversation.turns, conversation.began))
        opens: Opening = {
            "contextId": "",
            "owner": self.principal.user_id,
            "workspace": workspace,
            "agent": self.agent.pk,
            "title": title,
        }
        with ledger.writing(Context(pk=self.key)) as log:
            log.add(EventType.SESSION_RENAMED, {"title": title, "opens": log.opening(opens), **_dated(dates[0])})
            indexes = [_add(log, *said) for said in zip(conversation.turns, messages, dates, strict=True)]
        return log.context, indexes, dates

    def _fork(self, number: int, branch: Branch, of: _Path, messages: list[JSON]) -> _Path:
        """The fork of a branch, with the indexes and dates of its whole path."""
        source, indexes, dates = of
        shared, shared_dates = indexes[: branch.after], dates[: branch.after]
        new_dates = list(in_order(branch.turns, next(iter(shared_dates[::-1]), None)))
        child = forking.fork(
            self.principal,
            source.pk,
            shared[-1] if shared else 1,
            reason="edit" if branch.turns[0].is_user else "retry",
            key=_fork_key(number),
            dated=_dated(new_dates[0]).get("dated", ""),
        )
        with ledger.writing(child.pk) as log:
            new = [_add(log, *said) for said in zip(branch.turns, messages, new_dates, strict=True)]
        return log.context, shared + new, shared_dates + new_dates

    def _messages(self, session: uuid.UUID, turns: Sequence[Turn]) -> list[JSON]:
        messages = []
        for number, turn in enumerate(turns):
            parts: list[JSON] = []
            for attachment in turn.attachments:
                content = self.package.content_of(attachment) if self.size < FILE_BYTES_OF_ONE else None
                if not content:
                    self.skipped[Skip.UNREADABLE] += 1
                    continue
                self.files, self.size = self.files + 1, self.size + len(content)
                parts += blobs.store_large([_file_part(attachment, content)])
            spoken = [{"text": turn.text}] if turn.text or not parts else []
            messages.append(_message(session, number, turn, spoken + parts))
        return messages


_Path = tuple[Context, list[int], list[datetime.datetime | None]]
"""A session, with the index and the date of each turn on its path."""


def _fork_key(number: int) -> str:
    return f"imported {number}"


def _dated(at: datetime.datetime | None) -> dict[str, str]:
    return {DATED: at.isoformat()} if at else {}


def _add(log: ledger.Ledger, turn: Turn, message: JSON, at: datetime.datetime | None) -> int:
    type_ = EventType.USER_MESSAGE if turn.is_user else EventType.AGENT_MESSAGE
    return log.add(type_, {"message": message, "imported": turn.imported, **_dated(at)}).index


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
