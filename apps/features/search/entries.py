"""Entries of the index, in the form in which each database keeps them."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Iterable

from django.db import connection

from apps.features.search.models import Indexed, SearchEntry
from apps.features.search.words import words
from apps.record.models import Context

MOST_WORDS = 16_000  # of one entry: PostgreSQL counts places up to 16,383
MOST_BYTES = 500_000  # of its words: a tsvector may have a megabyte
FIELDS = ("owner", "index", "at", "name", "text", "words")


def entry(
    context: Context, kind: str, key: str, index: int, at: datetime.datetime, text: str, name: str = ""
) -> SearchEntry:
    """An entry, not written yet, of somebody's conversation. Of a very long text the beginning can be found."""
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
        words=form(found, context.owner_id),
    )


def _first_words(text: str) -> tuple[list[str], int]:
    """The words that are kept, and where they end."""
    found: list[str] = []
    size = 0
    for word in words(text):
        size += len(word.text.encode())
        if len(found) == MOST_WORDS or size > MOST_BYTES:
            return found, word.start
        found.append(word.text)
    return found, len(text)


def form(found: list[str], owner: int) -> str:
    """The words as the database takes them; on PostgreSQL with the mark of their owner among them."""
    if connection.vendor != "postgresql":
        return " ".join(found)
    places: defaultdict[str, list[str]] = defaultdict(list)
    for place, word in enumerate(found, start=1):
        places[word].append(str(place))
    return " ".join([f"'{mark_of(owner)}'", *(f"'{word}':{','.join(at)}" for word, at in places.items())])


def mark_of(owner: int) -> str:
    """A word that nobody can write: with it the index of words finds what is one owner's without looking at others'."""
    return f"@{owner}"


def upsert(made: list[SearchEntry]) -> None:
    """Write the entries in the place of those that stand for the same."""
    SearchEntry.objects.bulk_create(
        made, batch_size=200, update_conflicts=True, unique_fields=("context", "kind", "key"), update_fields=FIELDS
    )


def key_of(task: uuid.UUID, artifact_id: str) -> str:
    return f"{task}/{artifact_id}"


def lock(contexts: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Lock the `Indexed` rows of these conversations, inside a transaction; gives how far each is.

    A row that is missing is made: also who deletes entries waits here for who is writing some.
    """
    keys = sorted(contexts)
    Indexed.objects.bulk_create([Indexed(context_id=key) for key in keys], ignore_conflicts=True)
    locked = Indexed.objects.select_for_update().filter(pk__in=keys).order_by("pk")
    return dict(locked.values_list("pk", "upto"))
