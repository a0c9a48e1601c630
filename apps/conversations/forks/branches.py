"""The tree of a session's forks, the siblings of a message, the chosen leaf, and the branch points.

A tree consists of contexts and their parents, including deleted ones; their segments say what they share (`lineage`).
Forks that begin between the same two messages have one branch point, whatever other events are between the messages.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from django.db import connection
from django.db.models import Case, F, OuterRef, Q, QuerySet, Subquery, UUIDField, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

from apps.accounts.principals import Principal
from apps.conversations.forks import forking
from apps.conversations.forks.models import ChosenLeaf
from apps.record import lineage
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.lineage import LogRange
from apps.record.models import ENDLESS, Context, ContextQuerySet, Message, Segment
from apps.record.reading.lookup import restored
from apps.record.reading.visibility import seen_by
from parley.db.sql import write_transaction

ABOVE = """
    WITH RECURSIVE above(id, parent_id) AS (
        SELECT id, parent_id FROM {contexts} WHERE id = %s
        UNION ALL SELECT c.id, c.parent_id FROM {contexts} c JOIN above ON c.id = above.parent_id
    )"""
ROOT = f"{ABOVE} SELECT id FROM above WHERE parent_id IS NULL"  # noqa: S608
MEMBERS = f"""{ABOVE}, tree(id) AS (
        SELECT id FROM above WHERE parent_id IS NULL
        UNION ALL SELECT c.id FROM {{contexts}} c JOIN tree ON c.parent_id = tree.id
    ) SELECT id FROM tree"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Sibling:
    context: Context
    message: Message


@dataclass(frozen=True, slots=True)
class Node:
    context: Context
    messages: int

    @property
    def is_gap(self) -> bool:
        return self.context.deleted_at is not None


@dataclass(frozen=True, slots=True)
class Tree:
    """A session and its forks: parents before their children, siblings by age. `chosen` is the caller's leaf."""

    root: uuid.UUID
    nodes: list[Node]
    chosen: uuid.UUID | None


def tree(principal: Principal, context: uuid.UUID) -> Tree:
    """The tree of one of the caller's sessions, in four queries. Raises ContextNotFound.

    Includes a deleted session while a fork of it exists.
    """
    members = tree_members(context)
    found = list(members.select_related("agent").order_by("created_at", "pk"))
    top = next((one.pk for one in found if one.parent_id is None), None)
    found = [one for one in found if one.is_seen_by(principal)]
    by_key = {one.pk: one for one in found}
    asked = by_key.get(context)
    if asked is None or asked.deleted_at is not None:
        raise ContextNotFound
    ordered = _parents_first(found)
    counts = lineage.message_counts(found)
    root = ordered[0].pk
    chosen = ChosenLeaf.objects.filter(user=principal.user_id, root=top).values_list("leaf_id", flat=True)
    leaf = next((key for key in chosen if key in by_key and by_key[key].deleted_at is None), None)
    return Tree(root, [Node(one, counts[one.pk]) for one in ordered], leaf)


def siblings(principal: Principal, context: Context, index: int) -> list[Sibling]:
    """The caller's sessions that continue from just before the message at `index`, the original first.

    Raises InvalidParams for an index out of range.
    """
    if not 0 < index <= context.last_event:
        raise InvalidParams(f"There is no event {index}. Choose one from 1 to {context.last_event}.", "index")
    point = forking.fork_point(context, index - 1)
    contexts = (_forks_at(point) | Context.objects.filter(pk=point.parent.pk)).filter(deleted_at=None)
    here = {one.source for one in lineage.log_ranges(context, context.last_event)}
    contexts = contexts.filter(seen_by(principal) | Q(pk__in=here))
    for cold in contexts.exclude(cold_file=""):
        restored(cold)
    first = Message.objects.filter(context=OuterRef("pk"), index__gt=point.at).order_by("index").values("pk")[:1]
    found = contexts.annotate(first=Subquery(first)).exclude(first=None)
    original = point.parent.pk if point.parent.forked_at != point.at else None
    by_age = sorted(found, key=lambda one: (one.pk != original, one.created_at, str(one.pk)))
    messages = Message.objects.in_bulk([one.first for one in by_age])
    return [Sibling(one, messages[one.first]) for one in by_age]


def save_chosen_leaf(principal: Principal, leaf: Context) -> None:
    """Remember which fork the caller looks at; nothing for an anonymous caller."""
    if principal.user_id is None:
        return
    root = _root(leaf.pk)
    with write_transaction():
        ChosenLeaf.objects.update_or_create(user_id=principal.user_id, root_id=root, defaults={"leaf": leaf})


def choose_leaf(principal: Principal, context: uuid.UUID, leaf: uuid.UUID) -> None:
    """Choose another session of the tree. Raises ContextNotFound, and InvalidParams for a leaf of another tree."""
    found = {one.pk: one for one in Context.objects.visible_to(principal).filter(pk__in={context, leaf})}
    if context not in found:
        raise ContextNotFound
    if leaf not in found or _root(leaf) != _root(context):
        raise InvalidParams("There is no such session among the forks of this one. See its tree.", "leaf")
    save_chosen_leaf(principal, found[leaf])


def with_chosen_leaf(rows: ContextQuerySet, principal: Principal) -> ContextQuerySet:
    """The newest sessions of families, each with `leaf`: another branch that the person chose since it changed."""
    chosen = ChosenLeaf.objects.annotate(family=Coalesce("leaf__root", "leaf_id")).filter(
        user=principal.user_id,
        family=OuterRef("family"),
        leaf__owner=OuterRef("owner"),
        leaf__deleted_at=None,
        leaf__archived_at=None,
        chosen_at__gt=OuterRef("updated_at"),
    )
    newest = chosen.exclude(leaf=OuterRef("pk")).order_by("-chosen_at", "pk").values("leaf")
    return rows.annotate(leaf=Subquery(newest[:1], output_field=UUIDField()))


def _forks_at(point: forking.ForkPoint) -> QuerySet[Context]:
    if point.at == 0:
        return tree_members(point.parent.pk).filter(forked_at=0)
    shared = Segment.objects.filter(source=point.parent, last=point.at).values("context")
    return Context.objects.filter(pk__in=shared, forked_at=point.at)


def tree_members(context: uuid.UUID) -> QuerySet[Context]:
    return Context.objects.filter(pk__in=_recursive_ids(MEMBERS, context))


def _root(context: uuid.UUID) -> uuid.UUID:
    return Context.objects.filter(pk__in=_recursive_ids(ROOT, context)).values_list("pk", flat=True).get()


def _recursive_ids(statement: str, context: uuid.UUID) -> RawSQL:
    key = Context._meta.pk.get_db_prep_value(context, connection)
    contexts = connection.ops.quote_name(Context._meta.db_table)
    return RawSQL(statement.format(contexts=contexts), [key])  # noqa: S611


def _parents_first(contexts: list[Context]) -> list[Context]:
    children: dict[uuid.UUID | None, list[Context]] = defaultdict(list)
    keys = {one.pk for one in contexts}
    for one in contexts:
        children[one.parent_id if one.parent_id in keys else None].append(one)
    ordered, waiting = [], children[None][::-1]
    while waiting:
        ordered.append(one := waiting.pop())
        waiting += children[one.pk][::-1]
    kept: set[uuid.UUID | None] = set()
    for one in reversed(ordered):
        if one.deleted_at is None or one.pk in kept:
            kept |= {one.pk, one.parent_id}
    return [one for one in ordered if one.pk in kept]


class Branch(NamedTuple):
    """A session, and the index of its own first message after the branch point."""

    session: uuid.UUID
    first_message: int


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """The message at `index` is one of several versions: the one at `position` (from 1) of `branches`.

    The original comes first, then the forks by age.
    """

    index: int
    position: int
    branches: list[Branch]


class _Gap(NamedTuple):
    """The place before a log's own message `next`, where forks begin; None: after its last message."""

    source: uuid.UUID
    next: int | None


MessageIndexes = dict[uuid.UUID, list[int]]
"""The indexes of the messages in each log."""


def branch_points(principal: Principal, context: Context) -> list[BranchPoint]:
    """The branch points of a session by index, with the forks that the caller may see.

    At most six queries; one if there are no forks.
    """
    if context.parent_id is None and not Context.objects.filter(parent=context).exists():
        return []
    ranges = lineage.log_ranges(context, ENDLESS)
    indexes = _message_indexes(Message.objects.filter(context__in={one.source for one in ranges}))
    by_gap = _forks_by_gap(principal, ranges, indexes)
    points = [_branch_point_at(gap, forks, ranges, indexes) for gap, forks in by_gap.items()]
    points.insert(0, _first_branch_point(principal, context, ranges[0], indexes))
    by_index = {point.index: point for point in points if point is not None}
    return sorted(by_index.values(), key=lambda point: point.index)


def _message_indexes(messages: QuerySet[Message]) -> MessageIndexes:
    indexes: MessageIndexes = defaultdict(list)
    rows = messages.order_by("context", "index").values_list("context_id", "index")
    for source, index in rows:
        indexes[source].append(index)
    return indexes


def _forks_by_gap(principal: Principal, ranges: list[LogRange], indexes: MessageIndexes) -> dict[_Gap, list[Branch]]:
    shared = Segment.objects.filter(source__in={one.source for one in ranges}, context__forked_at=F("last"))
    seen = shared.filter(seen_by(principal, "context__"), context__deleted_at=None)
    forks = seen.annotate(first_message=_first_own_message("context"))
    rows = forks.exclude(first_message=None).order_by("context__created_at", "context")
    by_gap: dict[_Gap, list[Branch]] = defaultdict(list)
    for source, at, fork, first_message in rows.values_list("source_id", "last", "context_id", "first_message"):
        by_gap[_Gap(source, _next_index(indexes[source], at))].append(Branch(fork, first_message))
    return by_gap


def _next_index(indexes: list[int], at: int) -> int | None:
    position = bisect_right(indexes, at)
    return indexes[position] if position < len(indexes) else None


def _branch_point_at(
    gap: _Gap, forks: list[Branch], ranges: list[LogRange], indexes: MessageIndexes
) -> BranchPoint | None:
    branches = forks if gap.next is None else [Branch(gap.source, gap.next), *forks]
    for one, after in [*pairwise(ranges), (ranges[-1], None)]:
        if one.source != gap.source:
            continue
        if gap.next is not None and one.first <= gap.next <= one.last:
            return _branch_point(gap.source, gap.next, branches)
        if after is not None and _next_index(indexes[one.source], one.last) == gap.next:
            return _branch_point(after.source, _next_index(indexes[after.source], one.last), branches)
    return None


def _branch_point(source: uuid.UUID, index: int | None, branches: list[Branch]) -> BranchPoint | None:
    positions = [position for position, branch in enumerate(branches, start=1) if branch.session == source]
    if index is None or not positions or len(branches) == 1:
        return None
    return BranchPoint(index, positions[0], branches)


def _first_branch_point(
    principal: Principal, context: Context, first: LogRange, indexes: MessageIndexes
) -> BranchPoint | None:
    seen = tree_members(context.pk).filter(seen_by(principal) | Q(pk=first.source))
    unshared = seen.filter(Q(forked_at=0) | Q(parent=None), deleted_at=None)
    begun = unshared.annotate(first_message=_first_own_message("pk")).exclude(first_message=None)
    rows = begun.order_by(F("forked_at").asc(nulls_first=True), "created_at", "pk").values_list("pk", "first_message")
    index = _next_index(indexes[first.source], 0)
    is_here = index is not None and index <= first.last
    return _branch_point(first.source, index if is_here else None, [Branch(*row) for row in rows])


def _first_own_message(context: str) -> Coalesce:
    """The index of a session's own first message, or None. Approximate for cold storage."""
    own = Message.objects.filter(context=OuterRef(context)).order_by("index").values("index")[:1]
    path = "" if context == "pk" else f"{context}__"
    cold = Case(When(**{f"{path}cold_messages__gt": 0}, then=Coalesce(F(f"{path}forked_at"), 0) + 2))
    return Coalesce(Subquery(own), cold)
