"""Where a conversation went on differently: the whole graph of its forks, who begins at the same place, who was chosen.

A tree holds together by its contexts' parents, the cleared ones too; what is shared by their segments (`lineage`).
"""

from __future__ import annotations

import uuid
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass

from django.db import connection
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.expressions import RawSQL

from apps.accounts.principals import Principal
from apps.features.forks import forking
from apps.features.forks.models import ChosenLeaf
from apps.record.cold import restored
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.models import Context, Message, Segment
from db.transactions import transacting

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
    """A way in which a conversation goes on from a place, with the message that begins it."""

    context: Context
    message: Message


@dataclass(frozen=True, slots=True)
class Node:
    """A conversation in the tree; of one that was cleared nothing is told but where it was."""

    context: Context
    messages: int

    @property
    def is_gap(self) -> bool:
        return self.context.deleted_at is not None


@dataclass(frozen=True, slots=True)
class Tree:
    """A conversation and its forks: parents before their children, those by age. `chosen` is the caller's leaf."""

    root: uuid.UUID
    nodes: list[Node]
    chosen: uuid.UUID | None


def tree(principal: Principal, context: uuid.UUID) -> Tree:
    """The whole tree that a conversation of the caller's is in; four queries. Raises ContextNotFound.

    What was cleared is in it as long as something goes on from there.
    """
    everybody = members(context)
    found = list(everybody.select_related("agent").order_by("created_at", "pk"))
    by_key = {one.pk: one for one in found}
    asked = by_key.get(context)
    if asked is None or asked.owner_id != principal.user_id or asked.deleted_at is not None:
        raise ContextNotFound
    ordered = _ordered(found)
    counts = _message_counts(found, everybody)
    chosen = ChosenLeaf.objects.visible_to(principal).filter(root=ordered[0].pk).values_list("leaf_id", flat=True)
    leaf = next((key for key in chosen if key in by_key and by_key[key].deleted_at is None), None)
    return Tree(ordered[0].pk, [Node(one, counts[one.pk]) for one in ordered], leaf)


def siblings(context: Context, index: int) -> list[Sibling]:
    """All ways in which conversations go on from where the message at `index` of one begins; the original first.

    One of them is that message. Raises InvalidParams for an index out of range.
    """
    if not 0 < index <= context.last_event:
        raise InvalidParams(f"There is no event {index}. Choose one from 1 to {context.last_event}.", "index")
    place = forking.place_of(context, index - 1)
    going_on = (_forks_at(place) | Context.objects.filter(pk=place.parent.pk)).filter(deleted_at=None)
    for cold in going_on.exclude(cold_file=""):
        restored(cold)
    first = Message.objects.filter(context=OuterRef("pk"), index__gt=place.at).order_by("index").values("pk")[:1]
    found = going_on.annotate(first=Subquery(first)).exclude(first=None)
    original = place.parent.pk if place.parent.forked_at != place.at else None
    by_age = sorted(found, key=lambda one: (one.pk != original, one.created_at, str(one.pk)))
    messages = Message.objects.in_bulk([one.first for one in by_age])
    return [Sibling(one, messages[one.first]) for one in by_age]


def choose(principal: Principal, leaf: Context) -> None:
    """Keep in which of a conversation's forks the caller, if known, is now."""
    if principal.user_id is None:
        return
    root = _root(leaf.pk)
    with transacting():
        ChosenLeaf.objects.update_or_create(user_id=principal.user_id, root_id=root, defaults={"leaf": leaf})


def choose_leaf(principal: Principal, context: uuid.UUID, leaf: uuid.UUID) -> None:
    """Choose another conversation of the tree that a conversation is in.

    Raises ContextNotFound, and InvalidParams for a leaf that is not in that tree; then nothing is changed.
    """
    found = {one.pk: one for one in Context.objects.visible_to(principal).filter(pk__in={context, leaf})}
    if context not in found:
        raise ContextNotFound
    if leaf not in found or _root(leaf) != _root(context):
        raise InvalidParams("There is no such session among the forks of this one. See its tree.", "leaf")
    choose(principal, found[leaf])


def _forks_at(place: forking.Place) -> QuerySet[Context]:
    """The forks that begin at a place; those that share nothing are all of their tree's that do."""
    if place.at == 0:
        return members(place.parent.pk).filter(forked_at=0)
    shared = Segment.objects.filter(source=place.parent, last=place.at).values("context")
    return Context.objects.filter(pk__in=shared, forked_at=place.at)


def members(context: uuid.UUID) -> QuerySet[Context]:
    """All contexts of the tree that a context is in."""
    return Context.objects.filter(pk__in=_keys(MEMBERS, context))


def _root(context: uuid.UUID) -> uuid.UUID:
    return Context.objects.filter(pk__in=_keys(ROOT, context)).values_list("pk", flat=True).get()


def _keys(statement: str, context: uuid.UUID) -> RawSQL:
    key = Context._meta.pk.get_db_prep_value(context, connection)
    contexts = connection.ops.quote_name(Context._meta.db_table)
    return RawSQL(statement.format(contexts=contexts), [key])  # noqa: S611


def _ordered(contexts: list[Context]) -> list[Context]:
    """Parents before their children, those as they come; without what was cleared and leads to nothing."""
    below: dict[uuid.UUID | None, list[Context]] = defaultdict(list)
    for one in contexts:
        below[one.parent_id].append(one)
    ordered, waiting = [], below[None][::-1]
    while waiting:
        ordered.append(one := waiting.pop())
        waiting += below[one.pk][::-1]
    led_to: set[uuid.UUID | None] = set()
    for one in reversed(ordered):
        if one.deleted_at is None or one.pk in led_to:
            led_to |= {one.pk, one.parent_id}
    return [one for one in ordered if one.pk in led_to]


def _message_counts(contexts: list[Context], members: QuerySet[Context]) -> dict[uuid.UUID, int]:
    """How many messages each conversation has, with its past: however many share that, it is read once."""
    keys = members.values("pk")
    indexes: dict[uuid.UUID, list[int]] = defaultdict(list)
    said = Message.objects.filter(context__in=keys).order_by("context", "index").values_list("context_id", "index")
    for context, index in said.iterator(5000):
        indexes[context].append(index)
    counts = {one.pk: len(indexes[one.pk]) if one.forked_at is None else 0 for one in contexts}
    stretches = Segment.objects.filter(context__in=keys).values_list("context_id", "source_id", "first", "last")
    for context, source, first, last in stretches:
        counts[context] += bisect_right(indexes[source], last) - bisect_left(indexes[source], first)
    return counts | {one.pk: one.cold_messages for one in contexts if one.cold_file}
