"""Reads sources and keeps their passages: the work that waits in `Source` rows.

A source is claimed, read by a process of its own, and its passages are replaced. A death in the middle repeats the work
and doubles nothing. What fails keeps the old passages, and is tried again after growing waits.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import logging
import random
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from agentkit.content.messages import raw_part
from apps.conversations.search.indexing import words_of
from apps.installation import embeddings
from apps.installation.embeddings import EmbeddingFailed, Vector
from apps.optional.knowledge import reading, vectors
from apps.optional.knowledge.models import Collection, Passage, Source
from apps.optional.knowledge.passages import Piece
from apps.optional.knowledge.reading import Page, Unreadable, page_name
from apps.optional.knowledge.sql import is_postgresql
from apps.optional.knowledge.vectors import CannotKeep
from apps.record.content import blobs
from apps.record.errors import StorageFull
from apps.record.events import JSON
from parley import db
from parley.db.sql import database_time, write_transaction
from parley.work import WorkList

log = logging.getLogger("parley.knowledge")

LEASE = datetime.timedelta(seconds=300)
MOST_TRIES = 6
FIRST_WAIT, LONGEST_WAIT = 30.0, 3_600.0  # seconds before it is tried again
EMBEDDING_SECONDS = 120.0  # for the vectors of one batch
AT_ONCE = 250  # rows of a statement, which keep SQLite's other writers waiting
UNREAD: JSON = {"state": Source.State.WAITING, "digest": "", "etag": "", "last_modified": "", "embedded_with": ""}
EARLIEST = 0.9  # of the hours between two looks at a page
HOUR = datetime.timedelta(hours=1)
ENDED = "The process that read it has ended several times. Split it, or save it in another form."

UNEXPECTED = "It could not be read. Operators find the reason in the log."


class Lost(Exception):
    """Another process has claimed the source, or it was removed."""


async def index(key: uuid.UUID) -> None:
    """Do what is due for a source: read it, look whether it has changed, have vectors made of its passages."""
    source = await db.run(_claim, key)
    if source is None:
        return
    try:
        if await db.run(_must_read, source):
            await _read(source)
        elif not await db.run(_needs_vectors, source):
            await db.run(_put_back, source)
        await _embed(source)
    except Unreadable as problem:
        await db.run(_fail, source, str(problem), is_lasting=problem.is_lasting)
    except (EmbeddingFailed, CannotKeep) as problem:
        log.warning("source %s is found by words alone for now: %s", key, problem)
        await db.run(lambda: source.retry(FIRST_WAIT, LONGEST_WAIT, tries=max(1, source.tries)))
    except Lost:
        log.info("source %s was claimed by another process, or removed", key)
    except Exception:
        log.exception("source %s could not be read", key)
        await db.run(_fail, source, UNEXPECTED, is_lasting=False)


def _claim(key: uuid.UUID) -> Source | None:
    claimed = Source.objects.filter(pk=key).select_related("collection").claim(LEASE)
    for source in claimed:
        if source.state != Source.State.WAITING or source.tries <= MOST_TRIES + 1:
            return source
        _fail(source, ENDED, is_lasting=True)
    return None


def _must_read(source: Source) -> bool:
    if source.state == Source.State.WAITING or source.error:
        return True
    if source.watch_hours is None or source.checked_at is None:
        return False
    return source.checked_at + EARLIEST * source.watch_hours * HOUR <= database_time()


def _needs_vectors(source: Source) -> bool:
    return vectors.are_possible() and source.embedded_with != settings.EMBEDDING_MODEL


def _put_back(source: Source) -> None:
    """Release what was claimed in vain, until its next look is due."""
    since = source.checked_at or database_time()
    source.release(tries=0, next_try_at=since + (source.watch_hours or 0) * HOUR)


def _fail(source: Source, sentence: str, *, is_lasting: bool) -> None:
    """Note why. The passages stay; what will not help is not tried again until somebody asks."""
    told = {"error": sentence[:300], "checked_at": database_time()}
    if is_lasting or source.tries >= MOST_TRIES:
        source.release(state=Source.State.FAILED, next_try_at=_next_look(source), **told)
    else:
        source.retry(FIRST_WAIT, LONGEST_WAIT, **told)


def _next_look(source: Source) -> datetime.datetime:
    """When a watched page is due again, so that those that were added together are not asked together."""
    hours = source.watch_hours or 0
    return database_time() + hours * HOUR * random.uniform(EARLIEST, 2 - EARLIEST)  # noqa: S311 - spreads load, hides nothing


async def _read(source: Source) -> None:
    """Raises Unreadable, Lost."""
    page = None
    if source.kind == Source.Kind.PAGE:
        page = await reading.fetch(source.url, source.etag, source.last_modified)
        content, media_type = (page.content, page.media_type) if page else (b"", "")
    else:
        content, media_type = await asyncio.to_thread(_stored, source), source.media_type
    is_new = source.kind == Source.Kind.FILE or page is not None
    digest = await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest()) if is_new else source.digest
    values: JSON = {"checked_at": await db.run(database_time)}
    if page is not None:
        values |= {"etag": page.etag, "last_modified": page.last_modified}
    if digest == source.digest:
        await db.run(_settle, source, **values)
        return
    found = await reading.read(content, media_type, source.name)
    values |= {"digest": digest, "is_whole": found.is_whole}
    await db.run(_keep, source, found.passages, found.title, page, values)


def _stored(source: Source) -> bytes:
    try:
        return blobs.content_of(source.part or {})
    except FileNotFoundError:
        raise Unreadable("Its content is gone. Add it again.") from None


def _settle(source: Source, **values: Any) -> None:
    """Note that it is read. It stays claimed if its passages need vectors. Raises Lost."""
    values |= {"state": Source.State.READY, "error": "", "tries": 0}
    source.tries = 0
    if _needs_vectors(source):
        is_held = source.extend(LEASE, **values)
    else:
        is_held = source.release(next_try_at=_next_look(source), **values)
    if not is_held:
        raise Lost


async def _embed(source: Source) -> None:
    """Have vectors made of the passages that have none. Raises EmbeddingFailed, CannotKeep, Lost."""
    if not await db.run(_needs_vectors, source):
        return
    while some := await db.run(vectors.without, source.pk, embeddings.BATCH_SIZE):
        made = await embeddings.vectors_of([text for _, text in some], seconds=EMBEDDING_SECONDS)
        await db.run(_keep_vectors, source, [(key, vector) for (key, _), vector in zip(some, made, strict=True)])
    await db.run(_settle_vectors, source)


def _keep_vectors(source: Source, made: Sequence[tuple[int, Vector]]) -> None:
    if not source.extend(LEASE):
        raise Lost
    vectors.keep(made)


def _settle_vectors(source: Source) -> None:
    source.release(embedded_with=settings.EMBEDDING_MODEL, tries=0, next_try_at=_next_look(source))


def _keep(source: Source, passages: Sequence[Piece], title: str, page: Page | None, values: JSON) -> None:
    """Replace the passages of a source, and what is stored of a page. Raises Lost, Unreadable."""
    stored = _store(source, page) if page else None
    if page is not None:
        values |= {"part": stored, "media_type": page.media_type[:200], "size": len(page.content)}
        values |= _renamed(source, title)

    def settle() -> None:
        if stored is not None:
            workspace, old = source.collection.workspace_id, [source.part] if source.part else []
            blobs.count_uses(workspace, [stored])
            blobs.release_uses(workspace, old)
            digests = [*blobs.stored_files(old)]
            transaction.on_commit(lambda: blobs.delete_unused(digests), robust=True)
        _settle(source)

    replace_passages(source, passages, settle, **values)


def _store(source: Source, page: Page) -> JSON:
    """Raises Unreadable."""
    [stored] = blobs.store_large([{**raw_part(page.content, source.name, page.media_type)}], inline=0)
    try:
        blobs.check_room(source.collection.workspace_id, [stored])
    except StorageFull as full:
        raise Unreadable(str(full), is_lasting=False) from None
    return stored


def _renamed(source: Source, title: str) -> JSON:
    """A page without a name of its own is called by its title."""
    has_own = source.name != page_name(source.url)
    if not title or has_own or Source.objects.filter(collection=source.collection_id, name=title).exists():
        return {}
    return {"name": title}


type Step = Callable[[], object]
"""A write of at most AT_ONCE rows."""


def replace_passages(source: Source, pieces: Sequence[Piece], also: Step = lambda: None, **values: Any) -> None:
    """Set the passages of a source that is held, and further values of it; `also` is part of the last transaction.

    PostgreSQL has one. On SQLite many rows take several, so that others write in between; until the last one, the
    source counts as unread. A passage whose text stays keeps its `ref` and its vector. Raises Lost.
    """
    words = [words_of(f"{one.heading}\n{one.text}", source.collection_id.hex) for one in pieces]
    steps = _steps(source, pieces, words)
    while len(steps) > 1 and not is_postgresql():
        with write_transaction():
            if not source.extend(LEASE, **UNREAD):
                raise Lost
            steps.pop(0)()
    with write_transaction():
        if not source.held.update(passages_count=len(pieces), indexed_at=Now(), embedded_with="", **values):
            raise Lost
        source.embedded_with = ""
        for step in steps:
            step()
        Collection.objects.filter(pk=source.collection_id).update(updated_at=Now())
        also()


def _steps(source: Source, pieces: Sequence[Piece], words: Sequence[str]) -> list[Step]:
    """What replaces the passages, in order."""
    there = list(Passage.objects.filter(source=source).defer("words").order_by("-index"))
    kept = _kept(there, pieces)
    left = {one.pk for one in kept.values()}
    moved = [one.pk for index, one in kept.items() if one.index != index]
    away = F("index") + max(len(pieces), there[0].index + 1 if there else 0)  # no two may have the same place
    new, changed = list[Passage](), list[Passage]()
    for index, (piece, value) in enumerate(zip(pieces, words, strict=True)):
        row = kept.get(index) or Passage(source=source, collection_id=source.collection_id, text=piece.text)
        if (row.index, row.heading, row.page) != (index, piece.heading, piece.page):
            row.index, row.heading, row.page, row.words = index, piece.heading, piece.page, value
            (new if row.pk is None else changed).append(row)
    rows = Passage.objects
    return [
        *_by_batch([one.pk for one in there if one.pk not in left], lambda some: rows.filter(pk__in=some).delete()),
        *_by_batch(moved, lambda some: rows.filter(pk__in=some).update(index=away)),
        *_by_batch(changed, lambda some: rows.bulk_update(some, ["index", "heading", "page", "words"])),
        *_by_batch(new, rows.bulk_create),
    ]


def _by_batch[Row](rows: Sequence[Row], write: Callable[[Sequence[Row]], object]) -> list[Step]:
    return [partial(write, rows[at : at + AT_ONCE]) for at in range(0, len(rows), AT_ONCE)]


def _kept(there: Sequence[Passage], pieces: Sequence[Piece]) -> dict[int, Passage]:
    """The passages whose text stays, by their new places. `there`: the last one first."""
    by_text: dict[str, list[Passage]] = defaultdict(list)
    for one in there:
        by_text[one.text].append(one)
    return {index: same.pop() for index, one in enumerate(pieces) if (same := by_text[one.text])}


def due_sources() -> QuerySet[Any, Any]:
    """What a worker has to do, also for vectors of another model, and for those that a restored backup lacks."""
    if vectors.are_possible():
        has_passages = Source.objects.filter(passages_count__gt=0)
        if not vectors.has_any():
            _update(has_passages.filter(embedded_with=settings.EMBEDDING_MODEL), embedded_with="")
        now = database_time()
        later = Source.objects.filter(state=Source.State.READY, lease_until=None, tries=0, next_try_at__gt=now)
        _update(later.exclude(embedded_with=settings.EMBEDDING_MODEL), next_try_at=now)
    return Source.objects.due().values_list("pk", flat=True)


def _update(sources: QuerySet[Source], **values: Any) -> None:
    """Without a write if there are none."""
    if sources.exists():
        sources.update(**values)


def drop_unused_vectors() -> int:
    """Deletes the vectors of models that no source uses any more. Returns the number of models.

    While workers change from one model to the next, each keeps its own.
    """
    models = set(Source.objects.exclude(state=Source.State.FAILED).values_list("embedded_with", flat=True).distinct())
    return vectors.drop_others({*models, settings.EMBEDDING_MODEL} - {""})


SOURCES = WorkList(
    "knowledge_sources", "knowledge.index", index, Source, due=due_sources,
    waiting=lambda: Source.objects.filter(state=Source.State.WAITING), at_once=2, per_host=1,
)  # fmt: skip
