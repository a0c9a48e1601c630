"""The search index. A job updates it, and so does every search.

A session's `Indexed` row says how far it is indexed. It is locked while entries are written; files are read before. The
ledger does not index; deletion and forks change the index in their own transactions.
"""

from __future__ import annotations

import binascii
import datetime
import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import batched, chain
from operator import or_
from typing import Any

from django.db import connection
from django.db.models import F, Q
from django.db.models.aggregates import Max

from apps.accounts.principals import Principal
from apps.agents.models import DRAFT_PREFIX
from apps.conversations.search.models import Indexed, SearchEntry
from apps.conversations.search.tokenizer import tokenize
from apps.record.content import blobs
from apps.record.events import EventType
from apps.record.models import Artifact, Context, ContextQuerySet, Event, Message
from parley.db.sql import write_transaction

CONTEXTS_AT_ONCE = 100
LOOKED_UP_AT_ONCE = 1_000  # sessions
EVENTS_AT_ONCE = 1_000  # of all sessions: a search waits for them
NEWEST_CONTEXTS = 200  # of a caller, checked by a search
NEWEST_EVENTS = 20_000  # of the record, checked by the job
MAX_WORDS = 16_000  # PostgreSQL counts places up to 16,383
MAX_WORD_BYTES = 500_000  # a tsvector may have a megabyte
MAX_TEXT_LENGTH = 400_000  # characters of a message or artifact
MAX_PIECE_LENGTH = 60_000  # characters of one part
MAX_FILE_BYTES = 400_000
TEXT_MEDIA_TYPES = re.compile(
    r"text/.*|application/(json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|x-ndjson|csv)|.*\+(json|xml|yaml)"
)
CONTROL_TO_SPACE = str.maketrans(dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000)], " "))


@dataclass(frozen=True, slots=True)
class UnindexedEvents:
    context: Context
    after: int
    upto: int


def indexable_contexts() -> ContextQuerySet:
    """People's sessions, without those of child tasks and of drafts. Archived ones were indexed before."""
    found: ContextQuerySet = Context.objects.listed().filter(deleted_at=None, owner__isnull=False, cold_file="")
    return found.exclude(agent__slug__startswith=DRAFT_PREFIX)


def catch_up(principal: Principal) -> int:
    """Index the caller's newest sessions, up to EVENTS_AT_ONCE events. Returns how many sessions changed."""
    newest = indexable_contexts().of(principal).order_by("-updated_at", "-pk")[:NEWEST_CONTEXTS]
    return index_contexts(_behind(indexable_contexts().filter(pk__in=newest.values("pk"))))


def catch_up_newest() -> int:
    """Index sessions of the newest events. Asked in one query, PostgreSQL may look through all sessions."""
    last = Event.objects.aggregate(last=Max("pk"))["last"] or 0
    grown = Event.objects.filter(pk__gt=last - NEWEST_EVENTS).order_by().values_list("context", flat=True).distinct()
    for keys in batched(grown, LOOKED_UP_AT_ONCE):
        if changed := index_contexts(_behind(indexable_contexts().filter(pk__in=keys))):
            return changed
    return 0


def catch_up_all() -> int:
    return index_contexts(_behind(indexable_contexts()))


def index_completely(context: Context) -> None:
    while index_contexts(_behind(indexable_contexts().filter(pk=context.pk))):
        pass


def reset_index() -> None:
    """Index everything again. Old entries can be found until they are replaced."""
    with write_transaction():
        Indexed.objects.update(upto=0)


def _behind(contexts: ContextQuerySet) -> list[Context]:
    behind = contexts.filter(Q(indexed=None) | Q(indexed__upto__lt=F("last_event"))).select_related("indexed")
    return list(behind.defer("memory").order_by("-updated_at", "-pk")[:CONTEXTS_AT_ONCE])


def index_contexts(contexts: list[Context]) -> int:
    """Index the next events of the first of these sessions; returns how many sessions. A few statements for all."""
    batches = list(_next_events(contexts))
    if not batches:
        return 0
    titles = [
        make_entry(one.context, SearchEntry.Kind.SESSION, "", 0, one.context.created_at, one.context.title)
        for one in batches
    ]
    made = [*titles, *_message_entries(batches), *_artifact_entries(batches)]
    with write_transaction():
        current = lock_indexed(batch.context.pk for batch in batches)
        cleared = set(Context.objects.filter(pk__in=current).exclude(deleted_at=None).values_list("pk", flat=True))
        current_ends = {
            batch.context.pk: batch.upto
            for batch in batches
            if current[batch.context.pk] == batch.after and batch.context.pk not in cleared
        }
        SearchEntry.objects.bulk_create(
            [one for one in made if one.context_id in current_ends],
            batch_size=200,
            update_conflicts=True,
            unique_fields=("context", "kind", "key"),
            update_fields=("owner", "index", "at", "name", "text", "words"),
        )
        Indexed.objects.bulk_create(
            [Indexed(context_id=key, upto=upto) for key, upto in current_ends.items()],
            update_conflicts=True,
            unique_fields=("context",),
            update_fields=("upto",),
        )
    return len(batches)


def _next_events(contexts: list[Context]) -> Iterator[UnindexedEvents]:
    left = EVENTS_AT_ONCE
    for context in contexts:
        after = context.indexed.upto if hasattr(context, "indexed") else 0
        upto = min(context.last_event, after + left)
        if after < upto:
            yield UnindexedEvents(context, after, upto)
            left -= upto - after


def _message_entries(batches: list[UnindexedEvents]) -> Iterator[SearchEntry]:
    contexts = {batch.context.pk: batch.context for batch in batches}
    said = Message.objects.filter(_covered(batches))
    for one in said.only("context_id", "index", "role", "parts", "created_at").iterator(500):
        context = contexts[one.context_id]
        text = text_of(one.parts)
        yield make_entry(context, SearchEntry.Kind.MESSAGE, str(one.pk), one.index, one.created_at, text, one.role)


def _artifact_entries(batches: list[UnindexedEvents]) -> Iterator[SearchEntry]:
    """Artifacts count from the event that delivers them. One that its agent's message repeats is found there."""
    contexts = {batch.context.pk: batch.context for batch in batches}
    ends = Event.objects.filter(_covered(batches), type=EventType.AGENT_COMPLETE)
    delivered = {end.task_id: end for end in ends.only("task_id", "context_id", "index", "at")}
    said = Message.objects.filter(task__in=delivered, role=Message.Role.AGENT).only("task_id", "parts")
    spoken = {(one.task_id, text_of(one.parts)) for one in said.iterator(500)}
    for one in Artifact.objects.delivered().filter(task__in=delivered).iterator(100):
        end, content = delivered[one.task_id], text_of(one.parts)
        if (one.task_id, content) in spoken:
            continue
        key = f"{one.task_id}/{one.artifact_id}"
        text = "\n".join(filter(None, (one.name, one.description, content)))
        yield make_entry(contexts[end.context_id], SearchEntry.Kind.ARTIFACT, key, end.index, end.at, text, one.name)


def _covered(batches: list[UnindexedEvents]) -> Q:
    """Condition on events and messages. Of a new session also newer ones may come, to be indexed again."""
    new = {one.context.pk for one in batches if not one.after and one.upto == one.context.last_event}
    others = (one for one in batches if one.context.pk not in new)
    conditions = (Q(context=one.context, index__gt=one.after, index__lte=one.upto) for one in others)
    return reduce(or_, conditions, Q(context__in=new))


def text_of(parts: Iterable[dict[str, Any]]) -> str:
    pieces: list[str] = []
    left = MAX_TEXT_LENGTH
    for piece in chain.from_iterable(map(_pieces, parts)):
        if left <= 0:
            break
        pieces.append(piece[: min(left, MAX_PIECE_LENGTH)])
        left -= len(pieces[-1]) + 1
    return "\n".join(pieces).translate(CONTROL_TO_SPACE)


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
    context: Context, kind: str, key: str, index: int, at: datetime.datetime, text: str, name: str = ""
) -> SearchEntry:
    """An unsaved entry. Only the beginning of a very long text can be found."""
    assert context.owner_id is not None
    found, end = _first_words(text)
    return SearchEntry(
        context=context,
        owner_id=context.owner_id,
        kind=kind,
        key=key,
        index=index,
        at=at,
        name=name,
        text=text[:end] if end < len(text) else text,
        words=words_value(found, context.owner_id),
    )


def _first_words(text: str) -> tuple[list[str], int]:
    found: list[str] = []
    size = 0
    for word in tokenize(text):
        size += len(word.text.encode())
        if len(found) == MAX_WORDS or size > MAX_WORD_BYTES:
            return found, word.start
        found.append(word.text)
    return found, len(text)


def words_of(text: str, owner: int, vendor: str) -> str:
    """The `words` of an entry with this text, in a database of this vendor."""
    return words_value(_first_words(text)[0], owner, vendor)


def words_value(found: list[str], owner: int, vendor: str = "") -> str:
    if (vendor or connection.vendor) != "postgresql":
        return " ".join(found)
    places: defaultdict[str, list[str]] = defaultdict(list)
    for place, word in enumerate(found, start=1):
        places[word].append(str(place))
    return " ".join([f"'{owner_mark(owner)}'", *(f"'{word}':{','.join(at)}" for word, at in places.items())])


def owner_mark(owner: int) -> str:
    """A word that nobody can write. With it the index finds one owner's entries."""
    return f"@{owner}"


def lock_indexed(contexts: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Lock the `Indexed` rows of these sessions in a transaction; returns how far each is indexed.

    Creates missing rows.
    """
    keys = sorted(contexts)
    Indexed.objects.bulk_create([Indexed(context_id=key) for key in keys], ignore_conflicts=True)
    locked = Indexed.objects.select_for_update().filter(pk__in=keys).order_by("pk")
    return dict(locked.values_list("pk", "upto"))


def delete_entries(context: Context) -> None:
    lock_indexed([context.pk])
    SearchEntry.objects.filter(context=context).delete()
    Indexed.objects.filter(pk=context.pk).update(upto=context.last_event)


def move_entries(context: Context, heir: Context, upto: int) -> None:
    """Give the entries up to that event, a shared past, to the heir."""
    known = lock_indexed([context.pk, heir.pk])
    moved = SearchEntry.objects.filter(context=context, index__lte=upto)
    moved.exclude(kind=SearchEntry.Kind.SESSION).update(context=heir)
    if known[context.pk] < upto:  # the rest is indexed as the heir's
        Indexed.objects.filter(pk=heir.pk, upto__gt=known[context.pk]).update(upto=known[context.pk])
