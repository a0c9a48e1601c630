"""Reads sources and keeps their passages: the work that waits in `Source` rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from apps.conversations.search.indexing import words_of
from apps.optional.knowledge.models import Collection, Passage, Source
from apps.optional.knowledge.passages import Piece
from parley.db.sql import write_transaction

AT_ONCE = 500  # rows of a statement
FAR = 1_000_000  # more passages than any source has


class Lost(Exception):
    """Another process has claimed the source, or it was removed."""


def replace_passages(source: Source, pieces: Sequence[Piece], **values: Any) -> None:
    """Set the passages of a source that is held, and further values of it, in one transaction.

    A passage whose text stays keeps its `ref` and its vector. Raises Lost.
    """
    words = [
        words_of(f"{one.heading}\n{one.text}", source.collection_id.hex) for one in pieces
    ]  # before: it takes time
    with write_transaction():
        if not source.held.update(passages_count=len(pieces), indexed_at=Now(), **values):
            raise Lost
        kept = _kept(source, pieces)
        Passage.objects.filter(source=source).exclude(pk__in=[one.pk for one in kept.values()]).delete()
        moved = [one for index, one in kept.items() if one.index != index]
        if moved:  # out of the way first: no two may have the same place
            Passage.objects.filter(source=source).update(index=F("index") + FAR)
        rows = [
            _row(source, index, piece, value, kept.get(index))
            for index, (piece, value) in enumerate(zip(pieces, words, strict=True))
        ]
        Passage.objects.bulk_create([row for row in rows if row.pk is None], batch_size=AT_ONCE)
        changed = [row for row in rows if row.pk is not None]
        Passage.objects.bulk_update(changed, ["index", "heading", "page", "words"], batch_size=AT_ONCE)
        Collection.objects.filter(pk=source.collection_id).update(updated_at=Now())


def _kept(source: Source, pieces: Sequence[Piece]) -> dict[int, Passage]:
    """The passages whose text stays, by their new places."""
    by_text: dict[str, list[Passage]] = defaultdict(list)
    for one in Passage.objects.filter(source=source).defer("words").order_by("-index"):
        by_text[one.text].append(one)
    return {index: same.pop() for index, one in enumerate(pieces) if (same := by_text[one.text])}


def _row(source: Source, index: int, piece: Piece, words: str, kept: Passage | None) -> Passage:
    row = kept or Passage(source=source, collection_id=source.collection_id, text=piece.text)
    row.index, row.heading, row.page, row.words = index, piece.heading, piece.page, words
    return row
