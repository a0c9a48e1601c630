"""Families: a session and its owner's forks of it. Lists show a family as one row, and commands act on all of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress

from django.db.models import Case, Count, Exists, F, OuterRef, Q, Subquery, Value, When

from apps.accounts.principals import Principal
from apps.conversations.sessions import deletion
from apps.record.errors import ContextNotFound
from apps.record.models import FAMILY, INTERRUPTED_STATES, UNFINISHED_STATES, Context, ContextQuerySet, Segment, Task
from apps.record.reading import lookup

IS_ARCHIVED = Case(When(archived_at=None, then=Value(0)), default=Value(1))
IS_BRANCH = Case(When(id=F("family"), then=Value(0)), default=Value(1))
FIRST = (IS_BRANCH, "created_at", "pk")
"""The order of a family: the session that began it, or the oldest that is left, comes first."""
URGENCY = Case(
    When(state__in=INTERRUPTED_STATES, then=Value(0)),
    When(state__in=UNFINISHED_STATES, then=Value(1)),
    default=Value(2),
)


def newest_of_each(found: ContextQuerySet) -> ContextQuerySet:
    """Of each family among the sessions found, the one that changed last; an archived one only if all are archived.

    Of those that changed at once, as an import may leave them, the first session counts as the last. Each has `family`;
    `first`, the key of the family's first session, and `family_title`; `branches`, how many there are; and `state`: of
    the branch that waits or works, otherwise of this one.
    """
    members = found.annotate(family=FAMILY).order_by()
    same = members.filter(owner=OuterRef("owner"), family=OuterRef("family"))
    goes_first = Q(is_branch__lt=OuterRef("is_branch")) | Q(is_branch=OuterRef("is_branch"), pk__gt=OuterRef("pk"))
    later = Q(updated_at__gt=OuterRef("updated_at")) | (Q(updated_at=OuterRef("updated_at")) & goes_first)
    is_newer = Q(is_archived__lt=OuterRef("is_archived")) | (Q(is_archived=OuterRef("is_archived")) & later)
    newest_task = Task.objects.filter(context=OuterRef("pk")).order_by("-created_at", "-pk")
    by_urgency = same.annotate(state=Subquery(newest_task.values("state")[:1])).order_by(URGENCY, "-updated_at", "-pk")
    ranked = {"is_archived": IS_ARCHIVED, "is_branch": IS_BRANCH}
    return (
        members.annotate(**ranked)
        .filter(~Exists(same.annotate(**ranked).filter(is_newer)))
        .annotate(
            first=Subquery(same.order_by(*FIRST).values("pk")[:1]),
            family_title=Subquery(same.order_by(*FIRST).values("title")[:1]),
            branches=Subquery(same.values("family").annotate(number=Count("pk")).values("number")),
            state=Subquery(by_urgency.values("state")[:1]),
        )
    )


def members(principal: Principal, session: uuid.UUID) -> list[Context]:
    """The family of one of the caller's own sessions, the newest first. Raises ContextNotFound, NotYourSession."""
    found = lookup.find_own_session(principal, session)
    if not principal.is_known:
        return [found]
    return list(Context.objects.of(principal).listed().of_family(found.family_key).reverse()) or [found]


def continuing(principal: Principal, session: uuid.UUID, first: int) -> list[Context]:
    """One of the caller's own sessions, and those of its family that continue after its event `first`; it comes last.

    Raises ContextNotFound, NotYourSession.
    """
    family = members(principal, session)
    after = Segment.objects.filter(source=session, last__gte=first, context__in=[one.pk for one in family])
    keys = set(after.values_list("context", flat=True)) | {session}
    return sorted((one for one in family if one.pk in keys), key=lambda one: one.pk == session)


def each(principal: Principal, session: uuid.UUID, act: Callable[[Principal, uuid.UUID], Context]) -> None:
    """A command for each session of the family. Raises ContextNotFound, NotYourSession."""
    for one in members(principal, session):
        with suppress(ContextNotFound):  # it was deleted just now
            act(principal, one.pk)


def delete(principal: Principal, doomed: list[Context]) -> None:
    """Delete sessions of a family. Raises UnderLegalHold; then those before it are deleted."""
    for one in doomed:
        deletion.delete([one], principal)
