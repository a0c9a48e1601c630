"""Searching a caller's own sessions: the query, its results, their excerpts.

A query mixes `words`, `"phrases"`, `-not` and `begin*`. Only a very long text is an error; anything that is not a word
is left out. The database gets only words, in its own query language.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

from django.db import connection
from django.db.models import F, Func, IntegerField, Lookup, Max, Q, QuerySet, TextField
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Round

from apps.accounts.principals import Principal
from apps.conversations.search import indexing
from apps.conversations.search.models import SearchEntry, WordsField
from apps.conversations.search.tokenizer import is_unspaced, tokenize
from apps.record import lineage
from apps.record.errors import InvalidParams
from apps.record.models import Context
from apps.record.reading.lookup import find_session

MAX_QUERY_LENGTH = 500  # characters of a query
RANKED = 10_000  # entries, on PostgreSQL: of more that match, the newest

TERM = re.compile(r'(?P<no>-?)(?:"(?P<phrase>[^"]*)(?:"|$)|(?P<bare>[^\s"]+))(?P<rest>\*?)')
EXCERPT_LENGTH = 160  # characters between the first and the last hit
EXCERPT_MARGIN = 60  # characters around them
EXCERPT_SEARCHED = 20_000  # characters
LINK = re.compile(r"!?\[([^\[\]\n]{0,200})\]\([^()\s]{1,2000}(?: \"[^\"\n]{0,200}\")?\)")


@dataclass(frozen=True, slots=True)
class Clause:
    """Consecutive words. With `is_prefix` the last one is the beginning of a word."""

    words: tuple[str, ...]
    is_prefix: bool = False

    def for_postgresql(self) -> str:
        quoted = [f"'{word}'" for word in self.words]
        return f"({' <-> '.join(quoted)}{':*' if self.is_prefix else ''})"

    def for_sqlite(self) -> str:
        return f'"{" ".join(self.words)}"{" *" if self.is_prefix else ""}'


@dataclass(frozen=True, slots=True)
class Query:
    """Finds what matches all `included` clauses and none of the `excluded`."""

    included: tuple[Clause, ...]
    excluded: tuple[Clause, ...]

    def __bool__(self) -> bool:
        return bool(self.included)

    def for_postgresql(self) -> str:
        found = [clause.for_postgresql() for clause in self.included]
        return " & ".join([*found, *(f"!{clause.for_postgresql()}" for clause in self.excluded)])

    def for_sqlite(self) -> str:
        found = f"({' AND '.join(clause.for_sqlite() for clause in self.included)})"
        without = " OR ".join(clause.for_sqlite() for clause in self.excluded)
        return f"({found} NOT ({without}))" if without else found


class ExcerptPiece(TypedDict):
    text: str
    hit: bool


Hit = tuple[int, int, Clause]


class PageCursor(NamedTuple):
    """Where a list of results continues: after the one with this score, time and key.

    `newest` is the last entry when the list began; later ones are left out.
    """

    score: int
    at: datetime.datetime
    key: int
    newest: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    kind: str
    context: Context
    key: str
    index: int
    at: datetime.datetime
    name: str
    excerpt: list[ExcerptPiece]


@dataclass(frozen=True, slots=True)
class ResultPage:
    results: list[SearchResult]
    after: PageCursor | None = None


def search(
    principal: Principal,
    text: str,
    *,
    kinds: Collection[str] = (),
    session: uuid.UUID | None = None,
    agent: str = "",
    project: uuid.UUID | None = None,
    before: datetime.datetime | None = None,
    limit: int = 50,
    after: PageCursor | None = None,
) -> ResultPage:
    """What the query `text` finds for the caller, in pages of `limit`.

    Filters: `kinds` of entries, a `session` (with the past of a fork), an `agent` (its slug), a `project` (its key),
    and entries older than `before`. New messages are indexed first. Raises InvalidParams for a text that is too long,
    ContextNotFound.
    """
    query = parse_query(text)
    if not (query and principal.is_known):
        return ResultPage([])
    if after is None:
        indexing.catch_up(principal)
    newest = after.newest if after else SearchEntry.objects.aggregate(newest=Max("pk"))["newest"]
    found = _matching_entries(principal, query).filter(entry_id__lte=newest or 0)
    if kinds:
        found = found.filter(entry_kind__in=kinds)
    if session is not None:
        found = found.filter(_within(principal, session))
    if agent:
        found = found.filter(context__agent__slug=agent)
    if project is not None:
        found = found.filter(context__project=project)
    if before is not None:
        found = found.filter(at__lt=before)
    if connection.vendor == "postgresql":
        found = _newest(found)
    if after is not None:
        found = found.filter(_comes_after(after))
    rows = list(found.select_related("context__agent").defer("words").order_by("-score", "-at", "-pk")[: limit + 1])
    results = [
        SearchResult(row.kind, row.context, row.key, row.index, row.at, row.name, excerpt(row.text, query))
        for row in rows[:limit]
    ]
    last = rows[limit - 1] if len(rows) > limit else None
    return ResultPage(results, PageCursor(last.score, last.at, last.pk, newest) if last else None)


def matching_sessions(principal: Principal, text: str) -> QuerySet[SearchEntry, uuid.UUID]:
    """The keys of the caller's sessions in which the query finds anything, for a filter `pk__in`.

    Raises InvalidParams for a text that is too long.
    """
    if query := parse_query(text):
        indexing.catch_up(principal)
    return _matching_entries(principal, query).order_by().values_list("context", flat=True)


class WithoutIndex(Func):
    """A column that SQLite takes no index for (https://sqlite.org/optoverview.html#uplus)."""

    template = "+%(expressions)s"
    arity = 1


@WordsField.register_lookup
@TextField.register_lookup
class FullText(Lookup):
    lookup_name = "fulltext"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        left, left_values = self.process_lhs(compiler, connection)
        right, right_values = self.process_rhs(compiler, connection)
        form = f"{left} @@ {right}::tsquery" if connection.vendor == "postgresql" else f"{left} MATCH {right}"
        return form, (*left_values, *right_values)


def parse_query(text: str) -> Query:
    """The query; false if the text has no words. Raises InvalidParams for a text that is too long."""
    if len(text) > MAX_QUERY_LENGTH:
        raise InvalidParams(f"Look for something shorter: at most {MAX_QUERY_LENGTH} characters.", "q")
    included: list[Clause] = []
    excluded: list[Clause] = []
    for term in TERM.finditer(text):
        bare = term["bare"] or ""
        clause = _parse_clause(term["phrase"] or bare, is_prefix=bool(term["rest"]) or bare.endswith("*"))
        if clause:
            (excluded if term["no"] else included).append(clause)
    return Query(tuple(dict.fromkeys(included)), tuple(dict.fromkeys(excluded)))


def _parse_clause(text: str, *, is_prefix: bool) -> Clause | None:
    found = [word.text for word in tokenize(text)]
    if not found:
        return None
    if len(found[-1]) == 1 and is_unspaced(found[-1]):
        # The last character is a word of its own only in the query.
        if len(found) > 1 and found[-2].endswith(found[-1]):
            return Clause(tuple(found[:-1]), is_prefix=False)
        return Clause(tuple(found), is_prefix=True)
    return Clause(tuple(found), is_prefix)


def _matching_entries(principal: Principal, query: Query) -> QuerySet[Any]:
    found = SearchEntry.objects.visible_to(principal)
    if not query or principal.user_id is None:
        return found.none()
    if connection.vendor == "postgresql":
        own = f"'{indexing.group_mark(principal.user_id)}' & {query.for_postgresql()}"
        score = RawSQL(
            "round(ts_rank(search_searchentry.words, %s::tsquery, 1) * 10000)::int", [query.for_postgresql()]
        )
        return (
            found.filter(words__fulltext=own)
            .annotate(score=score)
            .alias(entry_id=F("pk"), entry_kind=F("kind"), entry_context=F("context_id"))
        )
    own = f'(owner_id : "{principal.user_id}") AND (words : {query.for_sqlite()})'
    # Without indexes, SQLite asks FTS5 once instead of for each row.
    return (
        found.filter(found__match__fulltext=own)
        .annotate(score=Cast(Round(F("found__rank") * -1000), IntegerField()))
        .alias(entry_id=WithoutIndex("pk"), entry_kind=WithoutIndex("kind"), entry_context=WithoutIndex("context_id"))
    )


def _newest(found: QuerySet[Any]) -> QuerySet[Any]:
    """The newest RANKED entries: to rank all would read each message that has a common word."""
    for newest_left_out in found.order_by("-pk").values_list("pk", flat=True)[RANKED : RANKED + 1]:
        return found.filter(entry_id__gt=newest_left_out)
    return found


def _within(principal: Principal, session: uuid.UUID) -> Q:
    context = find_session(principal, session, restore=False)
    found = Q(entry_context=context.pk)
    for lines in lineage.log_ranges(context, context.last_event):
        shared = Q(entry_context=lines.source, index__range=(lines.first, lines.last))
        found |= shared & ~Q(kind=SearchEntry.Kind.SESSION)
    return found


def _comes_after(cursor: PageCursor) -> Q:
    same = Q(score=cursor.score)
    return Q(score__lt=cursor.score) | (same & (Q(at__lt=cursor.at) | Q(at=cursor.at, pk__lt=cursor.key)))


def excerpt(text: str, query: Query) -> list[ExcerptPiece]:
    """The pieces in order; the beginning of the text if the hits are too far in it. Of a link only its words."""
    text = LINK.sub(r"\1", text[: EXCERPT_SEARCHED + EXCERPT_LENGTH])
    best = _best_hits(text, query)
    if not best:
        return _pieces(text, 0, min(len(text), EXCERPT_LENGTH + EXCERPT_MARGIN), [])
    start = max(0, best[0][0] - EXCERPT_MARGIN)
    end = min(len(text), max(hit[1] for hit in best) + EXCERPT_MARGIN)
    return _pieces(text, start, end, best)


def _best_hits(text: str, query: Query) -> list[Hit]:
    window: deque[Hit] = deque()
    best: list[Hit] = []
    most = 0
    for hit in _hits(text[:EXCERPT_SEARCHED], query.included):
        window.append(hit)
        while hit[1] - window[0][0] > EXCERPT_LENGTH and len(window) > 1:
            window.popleft()
        different = len({clause for _, _, clause in window})
        if different > most or (different == most and best and window[0] == best[0]):
            best, most = list(window), different
        elif most == len(query.included):
            break
    return best


def _hits(text: str, clauses: tuple[Clause, ...]) -> Iterator[Hit]:
    longest = max(len(clause.words) for clause in clauses)
    last: deque[tuple[str, int, int]] = deque(maxlen=longest)
    for word in tokenize(text):
        last.append(word)
        for clause in clauses:
            if found := _ends_with(last, clause):
                yield *found, clause


def _ends_with(last: deque[tuple[str, int, int]], clause: Clause) -> tuple[int, int] | None:
    count = len(clause.words)
    if len(last) < count:
        return None
    tail = list(last)[-count:]
    *before, end = clause.words
    found = tail[-1][0]
    if not (found.startswith(end) if clause.is_prefix else found == end):
        return None
    if any(word[0] != expected for word, expected in zip(tail, before, strict=False)):
        return None
    return tail[0][1], tail[-1][2]


def _pieces(text: str, start: int, end: int, hits: list[Hit]) -> list[ExcerptPiece]:
    marked = bytearray(end - start)
    for first, last, _ in hits:
        for place in range(max(first, start), min(last, end)):
            marked[place - start] = 1
    edges = [0, *(place for place in range(1, end - start) if marked[place] != marked[place - 1]), end - start]
    pieces = [ExcerptPiece(text=text[start + a : start + b], hit=bool(marked[a])) for a, b in pairwise(edges) if a < b]
    if pieces and start > 0:
        pieces[0] = _with_ellipsis(pieces[0], at_start=True)
    if pieces and end < len(text):
        pieces[-1] = _with_ellipsis(pieces[-1], at_start=False)
    return pieces


def _with_ellipsis(piece: ExcerptPiece, *, at_start: bool) -> ExcerptPiece:
    text = piece["text"]
    if piece["hit"]:
        return piece
    if at_start:
        return ExcerptPiece(text="…" + (text.split(" ", 1)[1] if " " in text else text), hit=False)
    return ExcerptPiece(text=(text.rsplit(" ", 1)[0] if " " in text else text) + "…", hit=False)
