"""The search index's hand-written SQL, and what Django's migrations cannot express; a migration calls that."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from django.db import connection

from apps.agents.models import DRAFT_PREFIX, Agent
from apps.conversations.search.models import Indexed
from apps.record.models import Context, Event
from parley.db import sql
from parley.db.sql import Query, uuid_from


class Behind(NamedTuple):
    """A session that has grown since it was indexed up to the event `after`."""

    context: uuid.UUID
    owner: int
    title: str
    created_at: Any  # as the database gives it
    last_event: int
    after: int

    @classmethod
    def of(cls, context: Any, *rest: Any) -> Behind:
        return cls(uuid_from(context), *rest)


_JOINED = "JOIN {context.table} ON context.id = grown.id"
# People's sessions, without those of child tasks and of drafts. Archived ones were indexed before.
_BEHIND = f"""
SELECT context.id, context.owner_id, context.title, context.created_at, context.last_event, coalesce(indexed.upto, 0)
FROM grown {_JOINED} JOIN {{agent.table}} ON agent.id = context.agent_id
LEFT JOIN {{indexed.table}} ON indexed.context_id = context.id
WHERE coalesce(indexed.upto, 0) < grown.last AND context.parent_task IS NULL AND context.deleted_at IS NULL
AND context.owner_id IS NOT NULL AND context.cold_file = '' AND agent.slug NOT LIKE '{DRAFT_PREFIX}%%'"""  # noqa: S608  # no values

_TABLES: dict[str, Any] = {"context": Context, "agent": Agent, "indexed": Indexed}

BEHIND = Query(
    "WITH grown AS (SELECT one.id, one.last_event AS last FROM {one.table} WHERE one.id {any})"  # noqa: S608
    f"{_BEHIND} ORDER BY context.updated_at DESC, context.id DESC",
    Behind.of,
    one=Context,
    **_TABLES,
)
"""Those of these keys, the newest first."""


def behind_by_events(after: int, upto: int) -> list[Behind]:
    """Those of events with keys in this range. One statement: when a session is erased, its log may go to a fork."""
    return _behind_by_events().all(after, upto)


@cache
def _behind_by_events() -> Query[Behind]:
    behind = _BEHIND
    if connection.vendor == "postgresql":  # one lookup for each: without statistics it would compare all with all
        by_key = "SELECT * FROM record_context WHERE record_context.id = grown.id OFFSET 0"
        behind = behind.replace(_JOINED, f"CROSS JOIN LATERAL ({by_key}) AS context")
    return Query(
        'WITH grown AS MATERIALIZED (SELECT event.context_id AS id, max(event."index") AS last FROM {event.table} '  # noqa: S608
        f"WHERE event.id > %s AND event.id <= %s GROUP BY event.context_id) {behind}",
        Behind.of,
        event=Event,
        **_TABLES,
    )


# The lock that a transaction takes before it adds an event, and keeps to its end.
_WRITERS = """
SELECT virtualtransaction FROM pg_locks WHERE relation = 'record_event'::regclass AND mode = 'RowExclusiveLock'
AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


def newest_event() -> tuple[int, list[str]]:
    """The newest event's key, and the transactions that may still add events with smaller ones.

    A transaction draws a key when it adds the event, and others see it after the commit. So one that had drawn a
    smaller key had its lock when this statement's snapshot was taken, from which the newest key is: then it has ended
    before the locks are read, and later statements see its events, or it is among those that hold one.
    The snapshot's xmin would not do: a transaction may draw a key before it gets its number.
    """
    writers = f"ARRAY({_WRITERS})" if connection.vendor == "postgresql" else "NULL"  # SQLite has one writer at a time
    found, names = sql.execute(f"SELECT (SELECT max(id) FROM record_event), {writers}", []).fetchone()  # noqa: S608
    return found or 0, sorted(set(names or ()))


def have_ended(writers: list[str]) -> bool:
    if not writers:
        return True
    return sql.execute(f"{_WRITERS} AND virtualtransaction = ANY(%s) LIMIT 1", [writers]).fetchone() is None


class Range(NamedTuple):
    """Events of a session: those after the one, up to the other."""

    context: str
    after: int
    upto: int


class Piece(NamedTuple):
    """A message or an artifact. `parts` is JSON; None if it is long."""

    context: uuid.UUID
    task: uuid.UUID | None
    key: Any
    event: int  # its index
    at: Any  # as the database gives it
    name: str
    parts: str | None
    description: str = ""
    artifact: str = ""


class Entry(NamedTuple):
    """A row of the index. `words` is the value of its column."""

    context: str
    owner: int
    kind: str
    key: str
    event: int  # its index
    at: str
    name: str
    text: str
    words: str


LONG = 16_000  # bytes of parts

_TYPES = {"context": "uuid", "owner": "bigint", "at": "timestamptz", "words": "tsvector"}
_TYPES |= dict.fromkeys(("after", "upto", "event"), "bigint")


def _rows(alias: str, of: type[Range | Entry]) -> str:
    """The rows of a JSON text, as a table: one parameter, whatever their number."""
    if connection.vendor == "postgresql":
        columns = ", ".join(f'"{name}" {_TYPES.get(name, "text")}' for name in of._fields)
        return f"json_to_recordset(%s::json) AS {alias} ({columns})"
    columns = ", ".join(f"""value ->> '{name}' AS "{name}\"""" for name in of._fields)
    return f"(SELECT {columns} FROM json_each(%s)) AS {alias}"  # noqa: S608  # no values


def _json(rows: Iterable[Range | Entry]) -> str:
    return json.dumps([row._asdict() for row in rows], ensure_ascii=False)


def _parts(column: str) -> str:
    if connection.vendor == "postgresql":
        return f"CASE WHEN octet_length({column}::text) <= {LONG} THEN {column}::text END"
    return f"CASE WHEN length({column}) <= {LONG} THEN {column} END"


def messages(ranges: Iterable[Range]) -> Iterator[Piece]:
    """The messages of these events. `name` is the role."""
    for context, task, key, *rest in sql.execute(_messages_sql(), [_json(ranges)]).fetchall():
        yield Piece(uuid_from(context), task and uuid_from(task), uuid_from(key), *rest)


@cache
def _messages_sql() -> str:
    # CROSS JOIN, so that SQLite begins with the ranges.
    return f"""
SELECT said.context_id, said.task_id, said.id, said."index", said.created_at, said.role, {_parts("said.parts")}
FROM {_rows("part", Range)} CROSS JOIN record_message said
WHERE said.context_id = part.context AND said."index" > part.after AND said."index" <= part.upto"""  # noqa: S608


def artifacts(ranges: Iterable[Range]) -> Iterator[Piece]:
    """The artifacts that these events deliver."""
    for context, task, *rest in sql.execute(_artifacts_sql(), [_json(ranges)]).fetchall():
        yield Piece(uuid_from(context), uuid_from(task), *rest)


@cache
def _artifacts_sql() -> str:
    return f"""
SELECT event.context_id, made.task_id, made.id, event."index", event.at, made.name, {_parts("made.parts")},
    made.description, made.artifact_id
FROM {_rows("part", Range)} CROSS JOIN record_event event JOIN record_artifact made ON made.task_id = event.task_id
WHERE event.context_id = part.context AND event."index" > part.after AND event."index" <= part.upto
    AND event.type = 'agent_complete' AND made.state = 'delivered'"""  # noqa: S608


def write_entries(entries: Iterable[Entry]) -> None:
    """Insert or replace entries of sessions that are not deleted. What is the same already is not written."""
    sql.execute(_entries_sql(), [_json(entries)])


@cache
def _entries_sql() -> str:
    columns = ["owner_id", '"index"', "at", "name", "text", "words"]
    words = "CAST(new.words AS tsvector)" if connection.vendor == "postgresql" else "new.words"
    return f"""
INSERT INTO search_searchentry AS old (context_id, kind, key, owner_id, "index", at, name, text, words)
SELECT new.context, new.kind, new.key, new.owner, new.event, new.at, new.name, new.text, {words}
FROM {_rows("new", Entry)} JOIN record_context ON record_context.id = new.context
WHERE record_context.deleted_at IS NULL
ON CONFLICT (context_id, kind, key) DO UPDATE SET {", ".join(f"{one} = excluded.{one}" for one in columns)}
WHERE {" OR ".join(f"old.{one} IS DISTINCT FROM excluded.{one}" for one in columns)}"""  # noqa: S608


LOCK_INDEXED = Query(
    "SELECT indexed.context_id, indexed.upto FROM {indexed.table} WHERE indexed.context_id {any} "
    "ORDER BY indexed.context_id {lock indexed}",
    lambda context, upto: (uuid_from(context), upto),
    indexed=Indexed,
)


def add_indexed(contexts: Iterable[uuid.UUID]) -> None:
    """Add missing rows, of sessions that are not indexed."""
    sql.execute(_add_indexed_sql(), [_json(Range(key.hex, 0, 0) for key in contexts)])


@cache
def _add_indexed_sql() -> str:
    return f"""
INSERT INTO search_indexed (context_id, upto) SELECT part.context, part.upto FROM {_rows("part", Range)} WHERE true
ORDER BY part.context ON CONFLICT (context_id) DO NOTHING"""  # noqa: S608


def note_indexed(ranges: Iterable[Range]) -> None:
    sql.execute(_indexed_sql(), [_json(ranges)])


@cache
def _indexed_sql() -> str:
    return f"""
UPDATE search_indexed SET upto = part.upto FROM {_rows("part", Range)}
WHERE search_indexed.context_id = part.context"""  # noqa: S608


POSTGRESQL = ["CREATE INDEX search_words ON search_searchentry USING gin (words) WITH (fastupdate = off)"]
NOT_POSTGRESQL = ["DROP INDEX search_words"]

# An external content table (https://sqlite.org/fts5.html#external_content_tables) stores only the index. Our words are
# plain runs of letters, so the simplest tokenizer takes them unchanged.
OLD = "INSERT INTO search_searchwords (search_searchwords, rowid, owner_id, words)"
NEW = "INSERT INTO search_searchwords (rowid, owner_id, words) VALUES (new.id, new.owner_id, new.words);"
OLD += " VALUES ('delete', old.id, old.owner_id, old.words);"
SQLITE = [
    "CREATE VIRTUAL TABLE search_searchwords USING fts5"
    " (owner_id, words, content='search_searchentry', content_rowid='id', tokenize='ascii')",
    "INSERT INTO search_searchwords (search_searchwords, rank) VALUES ('rank', 'bm25(0.0, 1.0)')",
    f"CREATE TRIGGER search_words_new AFTER INSERT ON search_searchentry BEGIN {NEW} END",
    f"CREATE TRIGGER search_words_old AFTER DELETE ON search_searchentry BEGIN {OLD} END",
    f"CREATE TRIGGER search_words_changed AFTER UPDATE OF owner_id, words ON search_searchentry BEGIN {OLD} {NEW} END",
]
NOT_SQLITE = [
    "DROP TRIGGER search_words_new",
    "DROP TRIGGER search_words_old",
    "DROP TRIGGER search_words_changed",
    "DROP TABLE search_searchwords",
]


def create_index(_: Any, schema_editor: Any) -> None:
    _execute(schema_editor, POSTGRESQL, SQLITE)


def drop_index(_: Any, schema_editor: Any) -> None:
    _execute(schema_editor, NOT_POSTGRESQL, NOT_SQLITE)


def _execute(schema_editor: Any, postgresql: list[str], sqlite: list[str]) -> None:
    for statement in postgresql if schema_editor.connection.vendor == "postgresql" else sqlite:
        schema_editor.execute(statement)
