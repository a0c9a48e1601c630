"""Vectors of passages: where they are kept, and which are the nearest.

Each model has a table of its own, made when its first vectors come. They can be computed again, so no backup has them.
On PostgreSQL they are pgvector's, and without this extension there are none. On SQLite they are compared one by one.
A row goes with its passage, by the database's own cascade.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
import uuid
from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, transaction

from apps.optional.knowledge import sql
from apps.optional.knowledge.sql import Scored, is_postgresql
from parley.db.sql import execute, write_transaction

log = logging.getLogger("parley.knowledge")

Vector = Sequence[float]
type _Matrix = tuple[Any, Any]
"""Keys of passages, and their vectors."""

MOST_DIMENSIONS = 4_000  # that pgvector has an index for, with half precision
EXACT_NUMBERS = 8_000_000  # so many numbers are compared one by one, which is exact and as fast as the index
LOOKED_AT = 100  # by the index, for each search
CHECK_SECONDS = 30.0  # after which it is asked again what the database has
REFUSED_SECONDS = 3_600.0  # after which a model is asked again whose vectors the database cannot keep


class CannotKeep(Exception):
    """This database cannot keep such vectors. The message says why, for operators."""


def table_of(model: str) -> str:
    return sql.VECTORS + hashlib.sha256(model.encode()).hexdigest()[:12]


class _Known:
    """What the database has, as it was seen last."""

    def __init__(self) -> None:
        self.tables: set[str] = set()
        self.can_keep, self.iterates, self.checked_at = False, False, float("-inf")
        self.refused, self.refused_until = "", float("-inf")

    def look(self) -> None:
        if time.monotonic() - self.checked_at < CHECK_SECONDS:
            return
        if is_postgresql():
            rows = execute(_EXTENSION, []).fetchall()
            version = tuple(int(number) for number in rows[0][0].split(".")[:2]) if rows else ()
            self.can_keep, self.iterates = version >= (0, 7), version >= (0, 8)
        else:
            self.can_keep = True
        self.tables = sql.vector_tables()
        self.checked_at = time.monotonic()


# Installed, or one that this role can install: a superuser any, who may create in the database a trusted one.
_EXTENSION = """
SELECT coalesce(installed_version, default_version) FROM pg_available_extensions
WHERE name = 'vector' AND (
    installed_version IS NOT NULL OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
    OR has_database_privilege(current_database(), 'CREATE') AND EXISTS (
        SELECT FROM pg_available_extension_versions
        WHERE name = 'vector' AND version = default_version AND trusted
    )
)"""
_known = _Known()


def forget() -> None:
    """Look again what the database has, before the next use."""
    global _known
    _known = _Known()


def are_possible() -> bool:
    """Is there a model for embeddings, and a place for what it gives?"""
    if not settings.EMBEDDING_MODEL:
        return False
    if _known.refused == settings.EMBEDDING_MODEL and time.monotonic() < _known.refused_until:
        return False
    _known.look()
    return _known.can_keep


def are_kept() -> bool:
    """Is there the table of the model's vectors? It may be empty."""
    if not are_possible():
        return False
    table = table_of(settings.EMBEDDING_MODEL)
    if table not in _known.tables:  # another process may have made it just now
        _known.tables = sql.vector_tables()
    return table in _known.tables


def has_any() -> bool:
    """Has any passage a vector of the model?"""
    return are_kept() and bool(execute(f"SELECT 1 FROM {table_of(settings.EMBEDDING_MODEL)} LIMIT 1", []).fetchone())  # noqa: S608


# The vector stays in the row, because a search would otherwise fetch each from elsewhere.
_MAKE = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE {table} (
    passage_id bigint PRIMARY KEY REFERENCES knowledge_passage ON DELETE CASCADE,
    collection_id uuid NOT NULL,
    embedding halfvec({dimensions}) NOT NULL
);
ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE PLAIN;
CREATE INDEX {table}_nearest ON {table} USING hnsw (embedding halfvec_cosine_ops);
CREATE INDEX {table}_collection ON {table} (collection_id)"""
_MAKE_SQLITE = """
CREATE TABLE {table} (
    passage_id integer PRIMARY KEY REFERENCES knowledge_passage (id) ON DELETE CASCADE,
    collection_id char(32) NOT NULL,
    embedding blob NOT NULL
);
CREATE INDEX {table}_collection ON {table} (collection_id, passage_id)"""


def prepare(dimensions: int) -> None:
    """Make the table for vectors of the model, unless it is there.

    One with vectors of another length is replaced: the model of this name is another one now. Raises CannotKeep.
    """
    try:
        if is_postgresql() and dimensions > MOST_DIMENSIONS:
            raise CannotKeep(f"Vectors of {dimensions} numbers are too long: PostgreSQL indexes {MOST_DIMENSIONS}.")
        _make(settings.EMBEDDING_MODEL, dimensions)
    except DatabaseError as error:
        _refuse()
        raise CannotKeep(f"The table for vectors cannot be made: {error}") from error
    except CannotKeep:
        _refuse()
        raise


def _refuse() -> None:
    """Ask the model for no vectors for some time: each call costs, and none could be kept."""
    _known.refused, _known.refused_until = settings.EMBEDDING_MODEL, time.monotonic() + REFUSED_SECONDS


def _make(model: str, dimensions: int) -> None:
    table = table_of(model)
    with _changing_tables() as cursor:
        there = _dimensions(table) if table in sql.vector_tables() else None
        if there in (0, dimensions):
            return
        if there is not None:
            cursor.execute(f"DROP TABLE {table}")
            cursor.execute("UPDATE knowledge_source SET embedded_with = '' WHERE embedded_with = %s", [model])
        made = (_MAKE if is_postgresql() else _MAKE_SQLITE).format(table=table, dimensions=dimensions)
        for statement in made.split(";"):
            cursor.execute(statement)


@contextmanager
def _changing_tables() -> Iterator[Any]:
    """A transaction in which one process at a time makes and drops tables."""
    with write_transaction(), connection.cursor() as cursor:
        if is_postgresql():
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('knowledge vectors'))")
        yield cursor


def drop_others(models: Collection[str]) -> int:
    """Delete the vectors of all models but these, with their tables. Returns how many tables."""
    kept = {table_of(model) for model in models}
    if not sql.vector_tables() - kept:
        return 0
    with _changing_tables() as cursor:
        others = sql.vector_tables() - kept
        for table in others:
            cursor.execute(f"DROP TABLE {table}")
    forget()
    return len(others)


_WITHOUT = """
SELECT passage.id, passage.heading, passage.text FROM knowledge_passage passage
LEFT JOIN {table} vector ON vector.passage_id = passage.id
WHERE passage.source_id = %s AND vector.passage_id IS NULL ORDER BY passage.id LIMIT %s"""
_NO_TABLE = "(SELECT CAST(NULL AS bigint) AS passage_id)"
_KEEP = """
INSERT INTO {table} SELECT passage.id, passage.collection_id, new.embedding::halfvec
FROM unnest(%s::bigint[], %s::text[]) AS new (id, embedding) JOIN knowledge_passage passage USING (id)
ON CONFLICT (passage_id) DO NOTHING"""
_KEEP_SQLITE = """
INSERT INTO {table} SELECT id, collection_id, %s FROM knowledge_passage WHERE id = %s
ON CONFLICT (passage_id) DO NOTHING"""
_DIMENSIONS = "SELECT atttypmod FROM pg_attribute WHERE attrelid = to_regclass('{table}') AND attname = 'embedding'"
_DIMENSIONS_SQLITE = "SELECT length(embedding) / 4 FROM {table} LIMIT 1"
_NEAREST = """
SELECT passage_id, 1 - (embedding <=> %s::halfvec) FROM {table} WHERE collection_id = ANY(%s::uuid[])
ORDER BY (embedding <=> %s::halfvec) LIMIT %s"""
_NEAREST_EXACT = _NEAREST.replace(" LIMIT", " + 0 LIMIT")  # an order that the index does not have


def without(source: uuid.UUID, limit: int) -> list[tuple[int, str]]:
    """The next passages of a source that have no vector, and their texts with the headings above."""
    table = table_of(settings.EMBEDDING_MODEL) if are_kept() else _NO_TABLE
    key = source if is_postgresql() else source.hex
    rows = execute(_WITHOUT.format(table=table), [key, limit]).fetchall()
    return [(passage, f"{heading}\n{text}".strip()) for passage, heading, text in rows]


def keep(vectors: Sequence[tuple[int, Vector]]) -> None:
    """Keep vectors of passages, of length 1. What was deleted meanwhile is left out. Raises CannotKeep."""
    dimensions, table = len(vectors[0][1]), table_of(settings.EMBEDDING_MODEL)
    if not are_kept() or _dimensions(table) not in (0, dimensions):
        prepare(dimensions)
    if is_postgresql():
        execute(_KEEP.format(table=table), [[key for key, _ in vectors], [as_text(one) for _, one in vectors]])
        return
    with write_transaction(), connection.cursor() as cursor:
        rows = [(array("f", vector).tobytes(), key) for key, vector in vectors]
        cursor.executemany(_KEEP_SQLITE.format(table=table), rows)


def _dimensions(table: str) -> int:
    """Of the vectors in a table; 0 for any."""
    statement = _DIMENSIONS if is_postgresql() else _DIMENSIONS_SQLITE
    row = execute(statement.format(table=table), []).fetchone()
    return int(row[0]) if row else 0


def as_text(vector: Vector) -> str:
    """As pgvector reads it."""
    return f"[{','.join(f'{number:.6g}' for number in vector)}]"


def nearest(vector: Vector, places: Mapping[uuid.UUID, int], limit: int) -> list[Scored]:
    """The nearest passages of these collections, by the cosine. `places`: how many passages each has."""
    if not is_postgresql():
        return _memory.nearest(vector, list(places), limit)
    table, asked = table_of(settings.EMBEDDING_MODEL), as_text(vector)
    values = [asked, list(places), asked, limit]
    if sum(places.values()) * len(vector) <= EXACT_NUMBERS:
        return [Scored(*row) for row in execute(_NEAREST_EXACT.format(table=table), values).fetchall()]
    with transaction.atomic():
        execute(_SETTINGS if _known.iterates else _SETTINGS_OF_0_7, [])
        return [Scored(*row) for row in execute(_NEAREST.format(table=table), values).fetchall()]


# How far the index looks; it goes on if rows of other collections are in between. To sort all would be the other way.
_SETTINGS_OF_0_7 = f"SELECT set_config('hnsw.ef_search', '{LOOKED_AT}', true), set_config('enable_sort', 'off', true)"
_SETTINGS = f"{_SETTINGS_OF_0_7}, set_config('hnsw.iterative_scan', 'strict_order', true)"


class _Memory:
    """SQLite's vectors, as matrices by collection, as long as they are what the database has."""

    MOST_BYTES = 256 * 1024**2  # a collection with more is read anew for each search
    BATCH = 10_000  # vectors of a matrix

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[uuid.UUID, tuple[Any, list[_Matrix]]] = OrderedDict()

    def nearest(self, vector: Vector, collections: Sequence[uuid.UUID], limit: int) -> list[Scored]:
        import numpy as np

        asked, found = np.asarray(vector, dtype=np.float32), list[Scored]()
        for keys, matrix in chain.from_iterable(self._matrices(one, len(vector)) for one in collections):
            scores = matrix @ asked
            best = np.argpartition(-scores, min(limit, len(scores)) - 1)[:limit]
            found += [Scored(int(keys[at]), float(scores[at])) for at in best]
            found = sorted(found, key=lambda one: -one.score)[:limit]
        return found

    def _matrices(self, collection: uuid.UUID, dimensions: int) -> Iterator[_Matrix]:
        table = table_of(settings.EMBEDDING_MODEL)
        counted = f"SELECT count(*), max(passage_id), sum(passage_id) FROM {table} WHERE collection_id = %s"  # noqa: S608
        revision = table, dimensions, execute(counted, [collection.hex]).fetchone()
        with self._lock:
            kept = self._kept.get(collection)
        if kept is not None and kept[0] == revision:
            yield from kept[1]
            return
        made: list[_Matrix] = []
        fits = revision[2][0] * dimensions * 4 <= self.MOST_BYTES
        for one in self._read(table, collection, dimensions):
            yield one
            if fits:
                made.append(one)
        if fits:
            self._keep(collection, revision, made)

    def _read(self, table: str, collection: uuid.UUID, dimensions: int) -> Iterator[_Matrix]:
        import numpy as np

        select = (
            f"SELECT passage_id, embedding FROM {table} WHERE collection_id = %s AND passage_id > %s"  # noqa: S608
            f" ORDER BY passage_id LIMIT {self.BATCH}"
        )
        after, is_last = 0, False
        while not is_last and (rows := execute(select, [collection.hex, after]).fetchall()):
            after, is_last = rows[-1][0], len(rows) < self.BATCH
            numbers = b"".join(content for _, content in rows if len(content) == 4 * dimensions)
            keys = np.array([key for key, content in rows if len(content) == 4 * dimensions], dtype=np.int64)
            if len(keys):
                yield keys, np.frombuffer(numbers, dtype=np.float32).reshape(-1, dimensions)

    def _keep(self, collection: uuid.UUID, revision: Any, made: list[_Matrix]) -> None:
        """Those that were made first go if there is no more room."""
        with self._lock:
            self._kept[collection] = revision, made
            self._kept.move_to_end(collection)
            while sum(matrix.nbytes for _, some in self._kept.values() for _, matrix in some) > self.MOST_BYTES:
                self._kept.popitem(last=False)


_memory = _Memory()
