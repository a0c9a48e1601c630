"""The search index. A job updates it (`jobs`), and so does every search.

A session's `Indexed` row says how far it is indexed. It is locked while entries are written; files are read before. The
ledger does not index; deletion and forks change the index in their own transactions.
"""

from __future__ import annotations

import binascii
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import batched, chain
from typing import Any

from django.db import connection
from django.db.models import OuterRef, Subquery

from apps.accounts.principals import Principal
from apps.conversations.search import sql
from apps.conversations.search.models import Indexed, Progress, SearchEntry
from apps.conversations.search.sql import Behind, Entry, Piece, Range
from apps.conversations.search.tokenizer import tokenize, words_in
from apps.record.content import blobs
from apps.record.models import Artifact, Context, Message
from parley.db.sql import Keys, write_transaction

CONTEXTS_AT_ONCE = 200
LOOKED_UP_AT_ONCE = 1_000  # sessions
FIRST_KEY = uuid.UUID(int=0)
EVENTS_AT_ONCE = 1_000  # of all sessions: a search waits for them
CHARACTERS_AT_ONCE = 2_000_000  # of texts in one transaction
NEWEST_CONTEXTS = 200  # of a caller, checked by a search
MAX_WORDS = 16_000  # PostgreSQL counts places up to 16,383
MAX_WORD_BYTES = 500_000  # a tsvector may have a megabyte
MAX_TEXT_LENGTH = 400_000  # characters of a message or artifact
MAX_PIECE_LENGTH = 60_000  # characters of one part
MAX_FILE_BYTES = 400_000
TEXT_MEDIA_TYPES = re.compile(
    r"text/.*|application/(json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|x-ndjson|csv)|.*\+(json|xml|yaml)"
)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")


def catch_up(principal: Principal) -> None:
    """Index the caller's newest sessions, up to EVENTS_AT_ONCE events."""
    newest = Context.objects.listed().of(principal).filter(cold_file="").order_by("-updated_at", "-pk")
    behind = sql.BEHIND.all(list(newest.values_list("pk", flat=True)[:NEWEST_CONTEXTS]))
    index_sessions(behind[:CONTEXTS_AT_ONCE])


def index_completely(context: Context) -> None:
    _index([context.pk])


def index_everything() -> None:
    """Index what is missing of all sessions."""
    after = FIRST_KEY
    while keys := sessions_after(after):
        _index(keys)
        after = keys[-1]


def sessions_after(key: uuid.UUID) -> list[uuid.UUID]:
    """The next sessions in the order of their keys."""
    return list(Context.objects.filter(pk__gt=key).order_by("pk").values_list("pk", flat=True)[:LOOKED_UP_AT_ONCE])


def reset_index() -> None:
    """Index everything again. Old entries can be found until they are replaced."""
    with write_transaction():
        Indexed.objects.update(upto=0)
        Progress.objects.update(checked=FIRST_KEY)


def _index(keys: list[uuid.UUID]) -> None:
    while behind := sql.BEHIND.all(keys):
        for some in batched(behind, CONTEXTS_AT_ONCE):
            index_sessions(some)


def index_sessions(sessions: Sequence[Behind]) -> None:
    """Index the next events of the first of these sessions, up to EVENTS_AT_ONCE. A few statements for all.

    The texts are read before the transactions. Usually it is one; long texts are in transactions of their own.
    """
    ranges = dict(_next_events(sessions))
    if not ranges:
        return
    owners = {one.context: one.owner for one in sessions}
    made: list[Entry] = []
    length = 0
    for entry in chain(map(_title_entry, sessions[: len(ranges)]), _entries(ranges, owners)):
        made.append(entry)
        if (length := length + len(entry.text)) > CHARACTERS_AT_ONCE:
            _write(ranges, made, is_complete=False)
            made, length = [], 0
    _write(ranges, made, is_complete=True)


def _write(ranges: dict[uuid.UUID, Range], entries: list[Entry], *, is_complete: bool) -> None:
    """Write entries of sessions that nobody else has indexed or deleted meanwhile."""
    with write_transaction():
        current = lock_indexed(ranges)
        held = {one.context: one for key, one in ranges.items() if current[key] == one.after}
        sql.write_entries(one for one in entries if one.context in held)
        if is_complete:
            sql.note_indexed(held.values())


def _next_events(sessions: Sequence[Behind]) -> Iterator[tuple[uuid.UUID, Range]]:
    left = EVENTS_AT_ONCE
    for one in sessions:
        upto = min(one.last_event, one.after + left)
        if one.after < upto:
            yield one.context, Range(one.context.hex, one.after, upto)
            left -= upto - one.after


def _title_entry(one: Behind) -> Entry:
    return make_entry(one.context, one.owner, SearchEntry.Kind.SESSION, "", 0, one.created_at, one.title)


def _entries(ranges: dict[uuid.UUID, Range], owners: dict[uuid.UUID, int]) -> Iterator[Entry]:
    """The entries of messages, then of artifacts. One that its agent's message repeats is found there."""
    spoken: set[tuple[uuid.UUID | None, int]] = set()
    for piece in sql.messages(ranges.values()):
        text = text_of(_parts_of(piece, Message))
        if piece.name == Message.Role.AGENT:
            spoken.add((piece.task, hash(text)))
        yield make_entry(
            piece.context, owners[piece.context], SearchEntry.Kind.MESSAGE, str(piece.key), piece.event, piece.at, text,
            piece.name,
        )  # fmt: skip
    made = {piece.key: piece for piece in sql.artifacts(ranges.values())}
    old = [piece.task for piece in made.values() if ranges[piece.context].after]
    if old:
        said = Message.objects.filter(task__in=old, role=Message.Role.AGENT).values_list("task", "parts")
        spoken.update((task, hash(text_of(parts))) for task, parts in said.iterator(50))
    for piece in made.values():
        content = text_of(_parts_of(piece, Artifact))
        if (piece.task, hash(content)) in spoken:
            continue
        text = "\n".join(filter(None, (piece.name, piece.description, content)))
        yield make_entry(
            piece.context, owners[piece.context], SearchEntry.Kind.ARTIFACT, f"{piece.task}/{piece.artifact}",
            piece.event, piece.at, text, piece.name,
        )  # fmt: skip


def _parts_of(piece: Piece, model: type[Message | Artifact]) -> list[dict[str, Any]]:
    if piece.parts is not None:
        parts: list[dict[str, Any]] = json.loads(piece.parts)
        return parts
    found = model._default_manager.filter(pk=piece.key).values_list("parts", flat=True).first()
    return found or []  # none: it was deleted meanwhile


def text_of(parts: Iterable[dict[str, Any]]) -> str:
    pieces: list[str] = []
    left = MAX_TEXT_LENGTH
    for piece in chain.from_iterable(map(_pieces, parts)):
        if left <= 0:
            break
        pieces.append(piece[: min(left, MAX_PIECE_LENGTH)])
        left -= len(pieces[-1]) + 1
    return CONTROL.sub(" ", "\n".join(pieces))


def _pieces(part: dict[str, Any]) -> Iterator[str]:
    if name := part.get("filename"):
        yield str(name)
    kind = part.get("stored", {}).get("kind", "")
    media_type = str(part.get("mediaType") or "").partition(";")[0].strip().lower()
    if "text" in part:
        yield str(part["text"])
    elif "data" in part:
        yield from _json_values(part["data"])
    elif kind in ("text", "data") or (("raw" in part or kind == "raw") and TEXT_MEDIA_TYPES.fullmatch(media_type)):
        with suppress(OSError, binascii.Error):  # a message is indexed even if a file is missing
            yield blobs.head_of(part, MAX_FILE_BYTES).decode(errors="replace")


def _json_values(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(reversed(one.values()))
        elif isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, str) or (isinstance(one, int | float) and not isinstance(one, bool)):
            yield str(one)


def make_entry(
    context: uuid.UUID, owner: int, kind: str, key: str, event: int, at: Any, text: str, name: str = ""
) -> Entry:
    """Only the beginning of a very long text can be found. `at` is as the database gave it."""
    found, end = _first_words(text)
    return Entry(context.hex, owner, kind, key, event, str(at), name, text[:end], words_value(found, owner))


def _first_words(text: str) -> tuple[list[str], int]:
    found = words_in(text)
    if len(found) <= MAX_WORDS and 4 * sum(map(len, found)) <= MAX_WORD_BYTES:
        return found, len(text)
    found, size = [], 0
    for word in tokenize(text):
        size += len(word.text.encode())
        if len(found) == MAX_WORDS or size > MAX_WORD_BYTES:
            return found, word.start
        found.append(word.text)
    return found, len(text)


def words_of(text: str, group: object, vendor: str = "") -> str:
    """The value of a `WordsField` for this text, in a database of this vendor."""
    return words_value(_first_words(text)[0], group, vendor)


def words_value(found: list[str], group: object, vendor: str = "") -> str:
    if (vendor or connection.vendor) != "postgresql":
        return " ".join(found)
    mark = group_mark(group)
    places = {mark: f"'{mark}'"}
    for place, word in enumerate(found, start=1):
        places[word] = f"{places[word]},{place}" if word in places else f"'{word}':{place}"
    return " ".join(places.values())


def group_mark(group: object) -> str:
    """A word that nobody can write. With it the index finds the rows of one group, such as an owner's entries."""
    return f"@{group}".replace("-", "")


def lock_indexed(contexts: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Lock the `Indexed` rows of these sessions in a transaction; returns how far each is indexed.

    Creates missing rows. In the order of their keys, so that no two processes wait for each other.
    """
    keys = sorted(contexts)
    sql.add_indexed(keys)
    return dict(sql.LOCK_INDEXED.all(keys))


def delete_entries(contexts: Keys) -> None:
    lock_indexed(contexts)
    SearchEntry.objects.filter(context__in=contexts).delete()
    newest = Subquery(Context.objects.filter(pk=OuterRef("pk")).values("last_event"))
    Indexed.objects.filter(pk__in=contexts).update(upto=newest + 1)  # whoever read them before writes no entry


def move_entries(context: Context, heir: Context, upto: int) -> None:
    """Give the entries up to that event, a shared past, to the heir."""
    known = lock_indexed([context.pk, heir.pk])
    moved = SearchEntry.objects.filter(context=context, index__lte=upto)
    moved.exclude(kind=SearchEntry.Kind.SESSION).update(context=heir)
    if known[context.pk] < upto:  # the rest is indexed as the heir's
        Indexed.objects.filter(pk=heir.pk, upto__gt=known[context.pk]).update(upto=known[context.pk])
