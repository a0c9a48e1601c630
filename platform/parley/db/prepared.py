"""Prepared statements on PostgreSQL by libpq's blocking calls.

psycopg's cursors also wait for signals, pipelines and notifications, which costs twice the processor time of a small
statement and lets other threads take the interpreter several times. Here a statement lets them once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from psycopg import Connection, RawCursor, pq
from psycopg.adapt import PyFormat, Transformer

USES = 2  # of a statement, before a connection prepares it
MOST = 300  # statements of a connection; others are left to psycopg

MUST_PREPARE_AGAIN = (b"26000", b"0A000")  # the server has forgotten the statement, or columns have other types

type Key = tuple[bytes, tuple[int, ...] | None]  # a statement, and its parameters' types

_known: WeakKeyDictionary[Connection[Any], dict[Key, int | bytes]] = WeakKeyDictionary()
"""By connection and statement: how often it was used, or its name once it is prepared."""

_numbers = itertools.count()


class Rows:
    """What a statement gave, as of a cursor."""

    def __init__(self, rows: list[tuple[Any, ...]], rowcount: int) -> None:
        self._rows, self.rowcount = rows, rowcount

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows.pop(0) if self._rows else None


def execute(connection: Connection[Any], sql: bytes, params: Sequence[Any]) -> Rows | RawCursor[Any]:
    """Execute a statement with `$1` parameters. Raises psycopg.Error.

    What fails outside a transaction has changed nothing, so psycopg repeats it, for its errors; on a broken connection
    it fails again.
    """
    is_alone = connection.autocommit and connection.pgconn.transaction_status == pq.TransactionStatus.IDLE
    if is_alone and connection.prepare_threshold is not None:
        found = _execute(connection, sql, params)
        if found is not None:
            return found
    return RawCursor(connection).execute(sql, params)


def _execute(connection: Connection[Any], sql: bytes, params: Sequence[Any]) -> Rows | None:
    """None if it is not prepared, or fails."""
    transformer, libpq = Transformer(connection), connection.pgconn
    values = transformer.dump_sequence(params, [PyFormat.AUTO] * len(params))
    known = _known.setdefault(connection, {})
    key = sql, transformer.types
    name = known.get(key, 0)
    if isinstance(name, int):
        if name < USES:
            if not name and len(known) >= MOST:
                for seldom in [one for one, used in known.items() if isinstance(used, int)]:
                    del known[seldom]
            if name or len(known) < MOST:
                known[key] = name + 1
            return None
        name = b"parley_%d" % next(_numbers)
        if libpq.prepare(name, sql, transformer.types).status != pq.ExecStatus.COMMAND_OK:
            return None
        known[key] = name
    result = libpq.exec_prepared(name, cast("Sequence[bytes]", values), transformer.formats)  # None is NULL
    match result.status:
        case pq.ExecStatus.TUPLES_OK:
            transformer.set_pgresult(result)
            return Rows(transformer.load_rows(0, result.ntuples, tuple), result.ntuples)
        case pq.ExecStatus.COMMAND_OK:
            return Rows([], result.command_tuples or 0)
    if result.error_field(pq.DiagnosticField.SQLSTATE) in MUST_PREPARE_AGAIN:
        del known[key]
    return None
