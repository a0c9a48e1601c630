"""The hand-written SQL of knowledge, and what Django's migrations cannot express; a migration calls that."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import connection

from parley.db import sql

RANKED = 800  # passages, on PostgreSQL: of more that match, some


class Scored(NamedTuple):
    """A passage that was found; the higher its score, the better."""

    passage: int
    score: float


# The more passages have a word, the less it counts (as in BM25); `ts_rank` says how much of it a passage has. A passage
# that matches a common word alone is no candidate, so a word is counted among the candidates.
_BY_WORDS = f"""
WITH ranked AS MATERIALIZED (
    SELECT hit.id, word.number, word.rank
    FROM (SELECT id, words FROM knowledge_passage WHERE words @@ %s::tsquery LIMIT {RANKED}) AS hit
    CROSS JOIN LATERAL (
        SELECT one.number, ts_rank(hit.words, one.query) AS rank
        FROM unnest(%s::text[]::tsquery[]) WITH ORDINALITY AS one(query, number) OFFSET 0
    ) AS word
    WHERE word.rank > 0
), seldom AS (
    SELECT number, ln(1 + (%s - count(*) + 0.5) / (count(*) + 0.5)) AS weight FROM ranked GROUP BY number
)
SELECT ranked.id, sum(ranked.rank * seldom.weight) AS score FROM ranked JOIN seldom USING (number)
GROUP BY ranked.id ORDER BY score DESC, ranked.id LIMIT %s"""  # noqa: S608  # a number

_BY_WORDS_SQLITE = """
SELECT passage.id, -found.rank AS score FROM knowledge_passagewords found
JOIN knowledge_passage passage ON passage.id = found.rowid
WHERE found.words MATCH %s AND passage.collection_id IN (SELECT value FROM json_each(%s))
ORDER BY found.rank, passage.id LIMIT %s"""


def by_words(candidates: str, words: Sequence[str], passages: int, limit: int) -> list[Scored]:
    """On PostgreSQL: what matches `candidates`, ranked by these words; each is a tsquery.

    `passages`: how many there are in the collections that are searched.
    """
    found = sql.execute(_BY_WORDS, [candidates, list(words), passages, limit]).fetchall()
    return [Scored(passage, float(score)) for passage, score in found]


def by_words_in_sqlite(query: str, collections: Sequence[uuid.UUID], limit: int) -> list[Scored]:
    """What matches the FTS5 query."""
    keys = json.dumps([one.hex for one in collections])
    return [Scored(*row) for row in sql.execute(_BY_WORDS_SQLITE, [query, keys, limit]).fetchall()]


_COMMON = """
SELECT word, frequency
FROM pg_stats, unnest(most_common_elems::text::text[], most_common_elem_freqs) AS common(word, frequency)
WHERE schemaname = ANY(current_schemas(false)) AND tablename = 'knowledge_passage' AND attname = 'words'
    AND word = ANY(%s)"""


def common_words(words: Sequence[str]) -> dict[str, float]:
    """Of these words the common ones, and in which share of all passages each is: PostgreSQL's statistics."""
    return dict(sql.execute(_COMMON, [list(words)]).fetchall())


POSTGRESQL = [
    "CREATE INDEX knowledge_words ON knowledge_passage USING gin (words) WITH (fastupdate = off)",
    # Passages stay whole in their rows: to fetch the words of a thousand from elsewhere takes longer than to rank them.
    "ALTER TABLE knowledge_passage SET (toast_tuple_target = 8160)",
    "ALTER TABLE knowledge_passage ALTER COLUMN words SET STATISTICS 300",  # it knows 3,000 common words
]
NOT_POSTGRESQL = ["DROP INDEX knowledge_words"]

# An external content table, as in `conversations.search.sql`.
_OLD = "INSERT INTO knowledge_passagewords (knowledge_passagewords, rowid, words) VALUES ('delete', old.id, old.words);"
_NEW = "INSERT INTO knowledge_passagewords (rowid, words) VALUES (new.id, new.words);"
SQLITE = [
    "CREATE VIRTUAL TABLE knowledge_passagewords USING fts5"
    " (words, content='knowledge_passage', content_rowid='id', tokenize='ascii')",
    f"CREATE TRIGGER knowledge_words_new AFTER INSERT ON knowledge_passage BEGIN {_NEW} END",
    f"CREATE TRIGGER knowledge_words_old AFTER DELETE ON knowledge_passage BEGIN {_OLD} END",
    f"CREATE TRIGGER knowledge_words_changed AFTER UPDATE OF words ON knowledge_passage BEGIN {_OLD} {_NEW} END",
]
NOT_SQLITE = [
    "DROP TRIGGER knowledge_words_new",
    "DROP TRIGGER knowledge_words_old",
    "DROP TRIGGER knowledge_words_changed",
    "DROP TABLE knowledge_passagewords",
]


def create_index(_: Any, schema_editor: Any) -> None:
    _execute(schema_editor, POSTGRESQL, SQLITE)


def drop_index(_: Any, schema_editor: Any) -> None:
    for table in vector_tables():
        schema_editor.execute(f"DROP TABLE {table}")
    _execute(schema_editor, NOT_POSTGRESQL, NOT_SQLITE)


def _execute(schema_editor: Any, postgresql: list[str], sqlite: list[str]) -> None:
    for statement in postgresql if schema_editor.connection.vendor == "postgresql" else sqlite:
        schema_editor.execute(statement)


VECTORS = "knowledge_vector_"  # how the names of tables of vectors begin (`vectors`)


def vector_tables() -> set[str]:
    return {name for name in connection.introspection.table_names() if name.startswith(VECTORS)}


def is_postgresql() -> bool:
    return connection.vendor == "postgresql"
