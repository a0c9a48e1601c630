"""Where on its way a conversation parted from others: at which of its messages, and whither the other ways lead.

Ways part at a message: conversations that were forked off between the same two messages go on from one place, whatever
else (a rating, a new title) was recorded there meanwhile.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from django.db.models import Case, F, OuterRef, Q, Subquery, When
from django.db.models.functions import Coalesce

from apps.features.forks import branches
from apps.record import lineage
from apps.record.lineage import Stretch
from apps.record.models import Context, Message, Segment
from apps.record.models.segments import ENDLESS


class Way(NamedTuple):
    """A way on: the session that it leads to, and the index of its own first message there."""

    session: uuid.UUID
    opening: int


@dataclass(frozen=True, slots=True)
class Parting:
    """The message at `index` is one of several that begin differently: `place` (from 1) of the `ways`.

    The original comes first, the forks by age.
    """

    index: int
    place: int
    ways: list[Way]


class _Place(NamedTuple):
    """After `at` a log goes on with its own next message; forks of it begin before that one."""

    source: uuid.UUID
    next: int | None


def of(context: Context) -> list[Parting]:
    """The partings of a conversation by index: six queries at most, and one where nothing was ever forked."""
    if context.parent_id is None and not Context.objects.filter(parent=context).exists():
        return []
    lines = lineage.stretches(context, ENDLESS)
    said = _said({line.source for line in lines})
    found = [_parting(place, forks, lines, said) for place, forks in _places(lines, said).items()]
    beginning = _beginning(context, lines[0], said)
    by_index = {one.index: one for one in [beginning, *found] if one is not None}
    return sorted(by_index.values(), key=lambda one: one.index)


def _said(sources: set[uuid.UUID]) -> dict[uuid.UUID, list[int]]:
    """Where in each log messages are."""
    said: dict[uuid.UUID, list[int]] = defaultdict(list)
    rows = Message.objects.filter(context__in=sources).order_by("index").values_list("context_id", "index")
    for source, index in rows:
        said[source].append(index)
    return said


def _places(lines: list[Stretch], said: dict[uuid.UUID, list[int]]) -> dict[_Place, list[Way]]:
    """The forks that begin along these lines, by the place where they do, oldest first."""
    shared = Segment.objects.filter(source__in={line.source for line in lines}, context__forked_at=F("last"))
    spoken = shared.filter(context__deleted_at=None).annotate(opening=_opening("context")).exclude(opening=None)
    places: dict[_Place, list[Way]] = defaultdict(list)
    rows = spoken.order_by("context__created_at", "context")
    for source, at, fork, opening in rows.values_list("source_id", "last", "context_id", "opening"):
        places[_Place(source, _next(said[source], at))].append(Way(fork, opening))
    return places


def _next(indexes: list[int], at: int) -> int | None:
    place = bisect_right(indexes, at)
    return indexes[place] if place < len(indexes) else None


def _parting(place: _Place, forks: list[Way], lines: list[Stretch], said: dict[uuid.UUID, list[int]]) -> Parting | None:
    """What a place is on these lines, which pass it on their source's own way or on a fork's; None if they do not."""
    ways = forks if place.next is None else [Way(place.source, place.next), *forks]
    for line, after in [*pairwise(lines), (lines[-1], None)]:
        if line.source != place.source:
            continue
        if place.next is not None and line.first <= place.next <= line.last:
            return _taken(place.source, place.next, ways)
        if after is not None and _next(said[line.source], line.last) == place.next:
            return _taken(after.source, _next(said[after.source], line.last), ways)
    return None


def _taken(source: uuid.UUID, index: int | None, ways: list[Way]) -> Parting | None:
    """A parting with more than one way, of which this one was taken."""
    taken = [place for place, way in enumerate(ways, start=1) if way.session == source]
    return Parting(index, taken[0], ways) if index is not None and taken and len(ways) > 1 else None


def _beginning(context: Context, first: Stretch, said: dict[uuid.UUID, list[int]]) -> Parting | None:
    """The parting at the first message: whoever shares nothing with the others of the tree begins anew."""
    anew = branches.members(context.pk).filter(Q(forked_at=0) | Q(parent=None), deleted_at=None)
    spoken = anew.annotate(opening=_opening("pk")).exclude(opening=None)
    rows = spoken.order_by(F("forked_at").asc(nulls_first=True), "created_at", "pk").values_list("pk", "opening")
    opening = _next(said[first.source], 0)
    is_here = opening is not None and opening <= first.last
    return _taken(first.source, opening if is_here else None, [Way(*row) for row in rows])


def _opening(context: str) -> Coalesce:
    """The index of a conversation's own first message; in cold storage about where that is; None without one."""
    own = Message.objects.filter(context=OuterRef(context)).order_by("index").values("index")[:1]
    path = "" if context == "pk" else f"{context}__"
    cold = Case(When(**{f"{path}cold_messages__gt": 0}, then=Coalesce(F(f"{path}forked_at"), 0) + 2))
    return Coalesce(Subquery(own), cold)
