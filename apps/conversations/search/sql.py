"""SQL for the search index that Django's migrations cannot express; a migration calls this."""

from __future__ import annotations

from typing import Any

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
