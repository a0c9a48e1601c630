"""Selections of the hot path: querysets that are compiled once, and run with other values (see `statements`)."""

from __future__ import annotations

import datetime
import operator
import uuid
from collections.abc import Callable, Collection, Sequence
from functools import cache, reduce
from typing import Any

from django.db import connection, models
from django.db.models.query import get_related_populators
from django.db.models.sql.where import WhereNode

from db.statements import TIME, execute, the_database, time_from


class Selection[M: models.Model]:
    """A queryset that is compiled at its first use and run with other values for its conditions.

        TASK = Selection(lambda key: Task.objects.select_related("context").filter(pk=key), uuid.UUID(int=0))
        TASK.one(task_id)

    `build` is called once for each kind of database, with the stand-ins; each of them must become the right-hand side
    of one plain condition (equality or comparison), and they must differ from each other. A slice stays as it is.
    """

    def __init__(self, build: Callable[..., models.QuerySet[M]], *stand_ins: Any) -> None:
        self._build = build
        self._stand_ins = stand_ins
        self._compiled: dict[str, _Compiled] = {}

    def all(self, *values: Any) -> list[M]:
        """The rows for these values."""
        return self._for_this_database().run(values)

    def _for_this_database(self) -> _Compiled:
        compiled = self._compiled.get(connection.vendor)
        if compiled is None:
            queryset = self._build(*self._stand_ins)
            compiled = self._compiled[connection.vendor] = _Compiled(queryset, self._stand_ins)
        return compiled

    def one(self, *values: Any) -> M | None:
        """The first row for these values, or None."""
        return next(iter(self.all(*values)), None)

    def one_now(self, *values: Any) -> tuple[M, datetime.datetime] | None:
        """The first row for these values, with the database's time when it was read; or None."""
        found = self.one_beside(TIME[connection.vendor], *values)
        return found and (found[0], time_from(found[1]))

    def one_beside(self, column: str, *values: Any) -> tuple[M, Any] | None:
        """The first row for these values, with what one more column yields for it, given as SQL; or None."""
        return next(iter(self._for_this_database().run_beside(column, values)), None)

    def count(self, *values: Any) -> int:
        """How many rows there are for these values, as far as the slice goes."""
        return self._for_this_database().count(values)


class Among[M: models.Model]:
    """The rows of a queryset that belong to any of several keys: for a few, compiled as a `Selection`.

        MESSAGES = Among(lambda: Message.objects.order_by("index"), "task")
        MESSAGES.all([task_id, other_id])

    The queryset that `build` gives has no conditions of its own.
    """

    FEW = 8

    def __init__(self, build: Callable[[], models.QuerySet[M]], name: str) -> None:
        self._build, self._name = build, name
        self._few = [self._selection(number) for number in range(1, self.FEW + 1)]

    def _selection(self, number: int) -> Selection[M]:
        def build(*keys: Any) -> models.QuerySet[M]:
            return self._build().filter(reduce(operator.or_, (models.Q(**{self._name: key}) for key in keys)))

        return Selection(build, *map(uuid.UUID, (f"{place:032x}" for place in range(number))))

    def all(self, keys: Collection[uuid.UUID]) -> list[M]:
        if not keys:
            return []
        if len(keys) > self.FEW:
            return list(self._build().filter(**{f"{self._name}__in": keys}))
        return self._few[len(keys) - 1].all(*keys)


def one_of_each[A: models.Model, B: models.Model](
    first: Selection[A], value: Any, second: Selection[B], other: Any
) -> tuple[A | None, B | None]:
    """The row that each of two selections, of one row at most, has for its value, or None: by one statement."""
    one, two = one_of_all((first, value), (second, other))
    return one, two


def one_of_all(*asked: tuple[Selection[Any], Any]) -> list[Any]:
    """The same of any number of selections, each with its value."""
    compiled = [selection._for_this_database() for selection, _ in asked]
    params = [param for one, (_, value) in zip(compiled, asked, strict=True) for param in one.params((value,))]
    found = execute(_side_by_side(*(one.sql for one in compiled)), params).fetchone()
    rows, begins = [], 0
    for one in compiled:
        rows.append(one.row(found[begins : begins + one.width]))
        begins += one.width
    return rows


@cache
def _side_by_side(*selections: str) -> str:
    """SQL for one row, of the columns of all; those of a selection that finds nothing are null."""
    names = [f"s{number}" for number in range(len(selections))]
    columns = ", ".join(f"{name}.*" for name in names)
    joined = " ".join(f"LEFT JOIN ({sql}) AS {name} ON true" for name, sql in zip(names, selections, strict=True))
    return f"SELECT {columns} FROM (SELECT 1) AS one {joined}"  # noqa: S608


class _Compiled:
    """One queryset's SQL for one kind of database, and how its rows become model instances."""

    def __init__(self, queryset: models.QuerySet[Any], stand_ins: Sequence[Any]) -> None:
        self._compiler = compiler = queryset.query.get_compiler(connection=connection)
        self.sql, params = compiler.as_sql()
        self.width = len(compiler.select)
        lookups = _lookups(queryset.query.where)
        self._bound = [(lookup.lhs.output_field, stand_ins.index(lookup.rhs)) for lookup in lookups]
        self._fixed = list(params[len(lookups) :])
        self._converters = compiler.get_converters([column[0] for column in compiler.select])
        info: Any = compiler.klass_info
        self._model = info["model"]
        self._own = slice(info["select_fields"][0], info["select_fields"][-1] + 1)
        self._names = [column[0].target.attname for column in compiler.select[self._own]]
        self._key = self._names.index(self._model._meta.pk.attname)
        self._related = get_related_populators(info, compiler.select, connection.alias, queryset._fetch_mode)  # type: ignore[attr-defined]

    def run(self, values: Sequence[Any]) -> list[Any]:
        return [self._instance(row) for row in self._rows(self.sql, values)]

    def run_beside(self, column: str, values: Sequence[Any]) -> list[tuple[Any, Any]]:
        sql = self.sql.replace(" FROM ", f", {column} FROM ", 1)
        return [(self._instance(row), row[-1]) for row in self._rows(sql, values)]

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        return self._converted(execute(sql, self.params(values)).fetchall())

    def _converted(self, rows: list[Any]) -> list[Any]:
        return list(self._compiler.apply_converters(rows, self._converters)) if self._converters else rows

    def row(self, columns: Any) -> Any:
        """The instance of these columns; None where they are of no row."""
        if columns[self._own][self._key] is None:
            return None
        return self._instance(self._converted([columns])[0])

    def count(self, values: Sequence[Any]) -> int:
        sql = f"SELECT COUNT(*) FROM ({self.sql}) AS counted"  # noqa: S608
        return int(execute(sql, self.params(values)).fetchone()[0])

    def params(self, values: Sequence[Any]) -> list[Any]:
        database = the_database()
        return [field.get_db_prep_value(values[place], database) for field, place in self._bound] + self._fixed

    def _instance(self, row: Any) -> models.Model:
        instance: models.Model = self._model.from_db(connection.alias, self._names, row[self._own])
        for populator in self._related:
            populator.populate(row, instance)
        return instance


def _lookups(where: WhereNode) -> list[Any]:
    return [leaf for child in where.children for leaf in (_lookups(child) if isinstance(child, WhereNode) else [child])]
