"""Finding what was said and delivered in a caller's own conversations."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import F, Func, IntegerField, Lookup, Max, Q, QuerySet, TextField
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Round

from apps.accounts.principals import Principal
from apps.features.search import entries, indexing, queries
from apps.features.search.excerpts import Piece, excerpt
from apps.features.search.models import SearchEntry, WordsField
from apps.features.search.queries import Query
from apps.record import lineage
from apps.record.errors import ContextNotFound
from apps.record.models import Context


class Place(NamedTuple):
    """Where a list of results goes on: after the one of this score, time and key.

    `newest` is the last entry that there was when the list began: what comes later does not disturb it.
    """

    score: int
    at: datetime.datetime
    key: int
    newest: int


@dataclass(frozen=True, slots=True)
class Found:
    """One result, in the conversation in which it was said (`index`: of the event that brought it)."""

    kind: str
    context: Context
    key: str
    index: int
    at: datetime.datetime
    name: str
    excerpt: list[Piece]


@dataclass(frozen=True, slots=True)
class Page:
    """Results, the best first, and the newest of those that are alike; `after` is where more of them are."""

    results: list[Found]
    after: Place | None = None


def find(
    principal: Principal,
    text: str,
    *,
    kinds: Collection[str] = (),
    session: uuid.UUID | None = None,
    agent: str = "",
    before: datetime.datetime | None = None,
    limit: int = 50,
    after: Place | None = None,
) -> Page:
    """What the caller may see and the query `text` (see `queries`) finds, in pages of `limit`.

    It is narrowed to `kinds` of entries, to what a `session` shows (of a fork also what it goes on from), to sessions
    with an `agent` (its slug), and to what is older than `before`. What was said a moment ago is found.
    Raises InvalidParams for a text that is too long, ContextNotFound.
    """
    query = queries.read(text)
    if not (query and principal.is_known):
        return Page([])
    if after is None:
        indexing.catch_up(principal)
    newest = after.newest if after else SearchEntry.objects.aggregate(newest=Max("pk"))["newest"]
    found = _matching(principal, query).filter(number__lte=newest or 0)
    if kinds:
        found = found.filter(is_of__in=kinds)
    if session is not None:
        found = found.filter(_within(principal, session))
    if agent:
        found = found.filter(context__agent__slug=agent)
    if before is not None:
        found = found.filter(at__lt=before)
    if after is not None:
        found = found.filter(_comes_after(after))
    rows = list(found.select_related("context__agent").defer("words").order_by("-score", "-at", "-pk")[: limit + 1])
    results = [_result(row, query) for row in rows[:limit]]
    last = rows[limit - 1] if len(rows) > limit else None
    return Page(results, Place(last.score, last.at, last.pk, newest) if last else None)


def sessions(principal: Principal, text: str) -> QuerySet[SearchEntry, uuid.UUID]:
    """The keys of the caller's conversations in which the query finds anything, for a filter `pk__in`.

    Raises InvalidParams for a text that is too long.
    """
    if query := queries.read(text):
        indexing.catch_up(principal)
    return _matching(principal, query).order_by().values_list("context", flat=True)


def _matching(principal: Principal, query: Query) -> QuerySet[Any]:
    """The entries that the query finds, with a `score`."""
    found = SearchEntry.objects.visible_to(principal)
    if not query or principal.user_id is None:
        return found.none()
    if connection.vendor == "postgresql":
        own = f"'{entries.mark_of(principal.user_id)}' & {query.for_postgresql()}"
        score = RawSQL(
            "round(ts_rank(search_searchentry.words, %s::tsquery, 1) * 10000)::int", [query.for_postgresql()]
        )
        return (
            found.filter(words__fulltext=own)
            .annotate(score=score)
            .alias(number=F("pk"), is_of=F("kind"), is_in=F("context_id"))
        )
    own = f'(owner_id : "{principal.user_id}") AND (words : {query.for_sqlite()})'
    # Its planner would begin with whatever has an index, and ask FTS5 once for each row.
    return (
        found.filter(found__match__fulltext=own)
        .annotate(score=Cast(Round(F("found__rank") * -1000), IntegerField()))
        .alias(number=Unindexed("pk"), is_of=Unindexed("kind"), is_in=Unindexed("context_id"))
    )


def _within(principal: Principal, session: uuid.UUID) -> Q:
    """What stands in the lines that the log of a session consists of, and its own title."""
    context = Context.objects.visible_to(principal).filter(pk=session).first()
    if context is None:
        raise ContextNotFound
    found = Q(is_in=context.pk)
    for stretch in lineage.stretches(context, context.last_event):
        shared = Q(is_in=stretch.source, index__range=(stretch.first, stretch.last))
        found |= shared & ~Q(kind=SearchEntry.Kind.SESSION)
    return found


def _comes_after(place: Place) -> Q:
    same = Q(score=place.score)
    return Q(score__lt=place.score) | (same & (Q(at__lt=place.at) | Q(at=place.at, pk__lt=place.key)))


def _result(row: SearchEntry, query: Query) -> Found:
    return Found(row.kind, row.context, row.key, row.index, row.at, row.name, excerpt(row.text, query))


class Unindexed(Func):
    """A column that SQLite takes no index for (https://sqlite.org/optoverview.html#uplus)."""

    template = "+%(expressions)s"
    arity = 1


@WordsField.register_lookup
@TextField.register_lookup
class FullText(Lookup):
    """`words @@ query` on PostgreSQL, `table MATCH query` on SQLite."""

    lookup_name = "fulltext"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        left, left_values = self.process_lhs(compiler, connection)
        right, right_values = self.process_rhs(compiler, connection)
        form = f"{left} @@ {right}::tsquery" if connection.vendor == "postgresql" else f"{left} MATCH {right}"
        return form, (*left_values, *right_values)
