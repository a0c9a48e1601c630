"""The statements of analytics that the ORM cannot say, or not fast enough."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import models

from apps.analytics.counting import Amount
from apps.analytics.models import Figure
from parley.db import sql

Key = tuple[int, str, int, int, int, str]  # span, topic, start, agent, version, label
KEYS = ("span", "topic", "start", "agent", "version", "label")
ROWS_PER_STATEMENT = 1_000


class HourOf(models.Func):
    """The start of a time's hour, in seconds since 1970."""

    output_field = models.BigIntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra_context: Any) -> Any:
        return self.as_sql(
            compiler, connection, template="(FLOOR(EXTRACT(EPOCH FROM %(expressions)s) / 3600)::bigint * 3600)"
        )

    def as_sqlite(self, compiler: Any, connection: Any, **extra_context: Any) -> Any:
        """From the text, because SQLite's functions round to milliseconds."""
        return self.as_sql(
            compiler,
            connection,
            template="CAST(strftime('%%%%s', substr(%(expressions)s, 1, 13) || ':00:00') AS INTEGER)",
        )


class SecondOfHour(models.Func):
    """A time's whole seconds since its hour began."""

    output_field = models.BigIntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra_context: Any) -> Any:
        return self.as_sql(
            compiler, connection, template="(FLOOR(EXTRACT(EPOCH FROM %(expressions)s))::bigint %%%% 3600)"
        )

    def as_sqlite(self, compiler: Any, connection: Any, **extra_context: Any) -> Any:
        column, parameters = compiler.compile(self.source_expressions[0])
        return f"(substr({column}, 15, 2) * 60 + substr({column}, 18, 2))", (*parameters, *parameters)


def add(sums: Mapping[Key, Amount]) -> None:
    """Add to the sums; in the order of their keys, so that two writers cannot block each other."""
    table, names = Figure._meta.db_table, (*KEYS, *Amount._fields)
    changes = ", ".join(f"{name} = {table}.{name} + EXCLUDED.{name}" for name in Amount._fields)
    columns, one = ", ".join(map(sql.quote, names)), f"({', '.join(['%s'] * len(names))})"
    for some in itertools.batched(sorted(sums.items()), ROWS_PER_STATEMENT):
        sql.execute(
            f"INSERT INTO {table} ({columns}) VALUES {', '.join([one] * len(some))} "  # noqa: S608
            f"ON CONFLICT ({', '.join(map(sql.quote, KEYS))}) DO UPDATE SET {changes}",
            [value for key, amount in some for value in (*key, *amount)],
        )


def add_up(topics: Iterable[str], start: int, end: int, part: int, span: int) -> None:
    """Make the sums of one `span` from those of its parts, from `start` to `end`."""
    topics, table = tuple(topics), Figure._meta.db_table
    marks = ", ".join(["%s"] * len(topics))
    sums = ", ".join(f"SUM({name})" for name in Amount._fields)
    columns = ", ".join(map(sql.quote, (*KEYS, *Amount._fields)))
    sql.execute(
        f"INSERT INTO {table} ({columns}) SELECT %s, topic, %s, agent, version, label, {sums} FROM {table} "  # noqa: S608
        f"WHERE span = %s AND topic IN ({marks}) AND start >= %s AND start < %s GROUP BY topic, agent, version, label",
        [span, start, part, *topics, start, end],
    )
