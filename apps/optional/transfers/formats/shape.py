"""What all formats become: conversations, each with a main path and its branches."""

from __future__ import annotations

import base64
import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from django.utils import timezone

from apps.optional.transfers.package import Attachment, Package, media_type_of_url
from apps.record.content import strict_json
from apps.record.events import JSON, Imported

MAX_MESSAGES = 2000  # of one conversation, with its branches
MAX_BRANCHES = 50  # of one conversation
MAX_TEXT_BYTES = 256 * 1024  # of one message
MAX_ATTACHMENTS = 50  # of one message
SPOKEN_ROLES = {"user": True, "human": True, "assistant": False, "agent": False}
BROKEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, OSError)


class Skip(StrEnum):
    """What a session does not get, and why."""

    MISSING = "missing_files"  # the export does not have them
    UNREADABLE = "unreadable_files"  # damaged, or larger than Parley takes
    TOOLS = "tool_messages"  # calls of tools, and their results
    REASONING = "reasoning"
    BRANCHES = "other_branches"  # damaged, or more than Parley takes
    HIDDEN = "hidden_messages"
    EDITS = "document_edits"  # whose place in the document was not found


SKIPPED_WORDS = {
    Skip.MISSING: "files that the export does not have",
    Skip.UNREADABLE: "files that are damaged or too large",
    Skip.TOOLS: "calls of tools and their results",
    Skip.REASONING: "passages of reasoning",
    Skip.BRANCHES: "branches that are damaged or too many",
    Skip.HIDDEN: "hidden messages",
    Skip.EDITS: "edits of documents that could not be repeated",
}


@dataclass(frozen=True)
class Turn:
    is_user: bool
    text: str
    imported: Imported
    attachments: tuple[Attachment, ...] = ()

    @property
    def at(self) -> datetime.datetime | None:
        return datetime.datetime.fromisoformat(self.imported["at"]) if "at" in self.imported else None


@dataclass(frozen=True)
class Branch:
    """Goes on after the first `after` turns of another path: 0 is the main one, 1 the first branch."""

    path: int
    after: int
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Conversation:
    """One conversation of a file. `problem`: why it cannot be imported, a sentence, or "".

    `began`: not after its first dated turn; None if unknown.
    """

    title: str
    turns: tuple[Turn, ...] = ()
    problem: str = ""
    skipped: Counter[Skip] = field(default_factory=Counter)
    branches: tuple[Branch, ...] = ()
    source: str = ""
    began: datetime.datetime | None = None

    @cached_property
    def digest(self) -> str:
        """Of the main path alone: it is the same conversation after an answer was tried again elsewhere."""
        said = [[one.is_user, one.text, dict(one.imported), *_named(one)] for one in self.turns]
        return strict_json.digest_of([self.title, said])

    @property
    def dates(self) -> tuple[datetime.datetime, datetime.datetime] | None:
        """Of the first and the last turn of the main path; None if they are unknown."""
        found = [at for at in in_order(self.turns, self.began) if at]
        return (found[0], found[-1]) if found else None


def _named(turn: Turn) -> list[Any]:
    return [[[one.name, one.source] for one in turn.attachments]] if turn.attachments else []


@dataclass
class Said:
    """One message as it is in an export. `left_out`: the number of parts that it lost."""

    role: str
    texts: list[str]
    at: Any
    model: Any = None
    attachments: list[Attachment] = field(default_factory=list)
    left_out: int = 0

    def attach(self, found: Attachment | None) -> None:
        if found is None or len(self.attachments) == MAX_ATTACHMENTS:
            self.left_out += 1
        else:
            self.attachments.append(found)


@dataclass(frozen=True)
class Tree:
    """The messages of a conversation, by key.

    Attributes:
        newest: the last one that was shown; None: there is none.
        before: the one before another; None: it is the first.
        said: what one says; None if nobody sees it. It is called after that of the one before.
        began: when, as the export says it.
    """

    messages: Mapping[Any, Any]
    newest: Any
    before: Callable[[Any], Any]
    said: Callable[[Any], Said | None]
    began: Any = None


def tree_of_list(messages: list[Any], said: Callable[[JSON], Said | None], began: Any = None) -> Tree:
    """Of messages that follow each other."""
    newest = len(messages) - 1 if messages else None
    before = lambda number: number - 1 if number else None  # noqa: E731
    return Tree(dict(enumerate(messages)), newest, before, lambda number: said(messages[number]), began)


@dataclass(frozen=True)
class Context:
    """What a reader of one conversation needs besides it."""

    package: Package
    skipped: Counter[Skip] = field(default_factory=Counter)

    def attachment(self, pointer: object, name: object = "", media_type: object = "") -> Attachment | None:
        """A file that the export has. Otherwise it is counted."""
        named, typed = (one if isinstance(one, str) else "" for one in (name, media_type))
        if isinstance(pointer, str) and (of_url := media_type_of_url(pointer)):
            return Attachment(named, typed or of_url, pointer)
        if key := self.package.find(pointer):
            return Attachment(named or self.package.name_of(key), typed, key)
        self.skipped[Skip.MISSING] += 1
        return None


def written(name: str, media_type: str, text: str) -> Attachment:
    """A file of a text that stands in the export."""
    return Attachment(name, media_type, "data:;base64," + base64.b64encode(text.encode()).decode())


Reader = Callable[[JSON, Context], Tree]


class TooLarge(Exception):
    """The conversation is larger than Parley takes, or another version's."""


def read_tree(source: str, title: str, tree: Tree, skipped: Counter[Skip]) -> Conversation:
    """Raises TooLarge, and one of BROKEN."""
    paths = _Paths(source, tree)
    _, main = paths.read(tree.newest, 0)
    branches, left_out = list[Branch](), 0
    for leaf in _leaves(tree):
        is_full = len(branches) + left_out >= MAX_BRANCHES
        branch = None if is_full else _branch(paths, leaf, len(branches) + 1)
        if branch is None:
            left_out += 1
        elif branch.turns:
            branches.append(branch)
    skipped[Skip.BRANCHES] += left_out
    problem = "" if main else "It has no messages with text."
    return Conversation(title, main, problem, skipped, tuple(branches), source, _began(tree.began, main))


def _began(at: Any, turns: tuple[Turn, ...]) -> datetime.datetime | None:
    """Some programs give the time of an import of theirs, which is later than the messages."""
    first = next((one.at for one in turns if one.at), None)
    try:
        began = datetime.datetime.fromisoformat(time_of(at)) if at else None
    except BROKEN:
        return first
    return min(began, first) if began and first else began or first


def _leaves(tree: Tree) -> list[Any]:
    """The messages that nothing follows, without the newest."""
    followed = {tree.newest, *map(tree.before, tree.messages)}
    return [key for key in tree.messages if key not in followed]


def _branch(paths: _Paths, leaf: Any, number: int) -> Branch | None:
    """None if it is damaged, or too large."""
    try:
        (path, after), turns = paths.read(leaf, number)
    except (*BROKEN, TooLarge):
        return None
    return Branch(path, after, turns)


class _Paths:
    """The paths of a tree that were read so far. Each message belongs to the first one that has it."""

    def __init__(self, source: str, tree: Tree) -> None:
        self._source, self._tree = source, tree
        self._place: dict[Any, tuple[int, int]] = {}  # by message: its path, and the number of turns up to it
        self._count = 0

    def _new_keys(self, newest: Any) -> list[Any]:
        """Up to the newest, without those read before. Raises ValueError for a loop, KeyError."""
        keys: list[Any] = []
        while newest is not None and newest not in self._place:
            if len(keys) > len(self._tree.messages):
                raise ValueError("loop")
            keys.append(newest)
            newest = self._tree.before(newest)
        return keys[::-1]

    def read(self, newest: Any, path: int) -> tuple[tuple[int, int], tuple[Turn, ...]]:
        """The place where a path leaves those read before, and its turns from there on."""
        keys, turns, places = self._new_keys(newest), list[Turn](), dict[Any, tuple[int, int]]()
        before = self._tree.before(keys[0]) if keys else newest
        start = self._place.get(before, (0, 0))
        for key in keys:
            said = self._tree.said(key)
            if said is not None and (turn := turn_of(self._source, said)):
                turns.append(turn)
            places[key] = (path, start[1] + len(turns)) if turns else start
        self._count += len(turns)
        if self._count > MAX_MESSAGES:
            self._count -= len(turns)
            raise TooLarge(f"It has more than {MAX_MESSAGES:,} messages.")
        self._place |= places
        return start, tuple(turns)


def turn_of(source: str, one: Said) -> Turn | None:
    """None for a message without text and files. Raises TooLarge."""
    text = "\n\n".join(one.texts).strip()
    if not (text or one.attachments):
        text = "(not imported)" * bool(one.left_out)
    if one.role not in SPOKEN_ROLES or not (text or one.attachments):
        return None
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise TooLarge(f"One of its messages has more than {MAX_TEXT_BYTES // 1024} KB.")
    imported: Imported = {"source": source}
    if one.at:
        imported["at"] = time_of(one.at)
    if one.model and isinstance(one.model, str):
        imported["model"] = one.model[:200]
    if one.left_out:
        imported["leftOut"] = one.left_out
    return Turn(SPOKEN_ROLES[one.role], text, imported, tuple(one.attachments))


def time_of(at: Any) -> str:
    """Of seconds, milliseconds or nanoseconds since 1970, or of ISO 8601; UTC if it names no zone."""
    if isinstance(at, str):
        found = datetime.datetime.fromisoformat(at)
        return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).isoformat()
    seconds = at / 1e9 if at > 1e17 else at / 1e3 if at > 1e11 else at
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()


def in_order(turns: tuple[Turn, ...], began: datetime.datetime | None) -> Iterator[datetime.datetime | None]:
    """The dates of turns: none is before the one before it, or in the future. None where nothing is known yet."""
    now, newest = timezone.now(), began
    for one in turns:
        newest = max((at for at in (newest, one.at) if at), default=None)
        yield newest and min(newest, now)
