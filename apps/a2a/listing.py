"""Listing a caller's tasks at an agent, page by page (A2A 1.0 §3.1.4)."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import Q

from apps.a2a.errors import JSON
from apps.a2a.requests import Listing
from apps.a2a.tokens import Cursor, binding, read_token, token
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record import cold, histories, wire
from apps.record.models import Artifact, Context, Task, TaskQuerySet
from db.selections import Selection

MOST_COUNTED = 10_000  # totalSize is exact up to here, and no more than this is ever counted
SHOWN = ("state", "status_at", "status_message", "metadata", "context", "context__context_id")

Filters = dict[str, Any]
"""Lookups of tasks, each with a plain value."""

STAND_INS: Filters = {
    "owner": 1,
    "agent": 2,
    "context": uuid.UUID(int=0),
    "state": "state",
    "status_at__gte": datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC),
}
CURSOR: Cursor = (datetime.datetime(2000, 1, 2, tzinfo=datetime.UTC), uuid.UUID(int=1))


def list_tasks(principal: Principal, agent: Agent, listing: Listing) -> JSON:
    """ListTasksResponse: the newest status first. At most five queries, however many tasks. Raises InvalidParams.

    An anonymous caller lists nothing: what belongs to nobody is not shown to everybody.
    """
    bound = binding("tasks", principal.sender, agent.pk, listing.context, listing.state, listing.since)
    after = read_token(listing.page_token, bound)
    filters = _filters(principal, agent, listing)
    rows = _page(filters, after, listing.page_size + 1) if filters else []
    page, has_more = rows[: listing.page_size], len(rows) > listing.page_size
    whole = after is None and not has_more
    return {
        "tasks": _shown(page, listing),
        "nextPageToken": token((page[-1].status_at, page[-1].pk), bound) if has_more else "",
        "pageSize": listing.page_size,
        "totalSize": len(page) if whole else _counted(tuple(filters)).count(*filters.values()),
    }


def _filters(principal: Principal, agent: Agent, listing: Listing) -> Filters:
    """What the caller's tasks are found by; nothing where there can be none."""
    if not principal.is_known:
        return {}
    filters: Filters = {"owner": principal.user_id, "agent": agent.pk}
    if listing.context:
        named = Context.objects.visible_to(principal).filter(context_id=listing.context)
        context = cold.restored_or_none(named.only("pk", "cold_file").first())
        if context is None:
            return {}
        # The context is the owner's. Naming the owner again would offer the database an index that is long to read.
        filters = {"context": context.pk, "agent": agent.pk}
    if listing.state is not None:
        filters["state"] = listing.state
    if listing.since is not None:
        filters["status_at__gte"] = listing.since
    return filters


def _page(filters: Filters, after: Cursor | None, size: int) -> list[Task]:
    return _paged(tuple(filters), after is not None, size).all(*filters.values(), *(after or ()))


@lru_cache(1000)
def _paged(names: tuple[str, ...], is_continued: bool, size: int) -> Selection[Task]:
    """A page of the tasks that are found by these lookups, after a cursor where the list is continued."""

    def build(*values: Any) -> TaskQuerySet:
        found = Task.objects.filter(**dict(zip(names, values, strict=False)))
        if is_continued:
            at, key = values[-2:]
            # The first condition is implied by the second; it is what lets the index begin at the right place.
            found = found.filter(Q(status_at__lte=at), Q(status_at__lt=at) | Q(pk__lt=key))
        return found.select_related("context").only(*SHOWN).order_by("-status_at", "-id")[:size]

    return Selection(build, *(STAND_INS[name] for name in names), *(CURSOR if is_continued else ()))


@lru_cache(100)
def _counted(names: tuple[str, ...]) -> Selection[Task]:
    """The tasks that are found by these lookups, as far as they are counted."""

    def build(*values: Any) -> TaskQuerySet:
        return Task.objects.filter(**dict(zip(names, values, strict=True))).only("pk").order_by()[:MOST_COUNTED]

    return Selection(build, *(STAND_INS[name] for name in names))


def _shown(page: list[Task], listing: Listing) -> list[JSON]:
    length = settings.DEFAULT_HISTORY_LENGTH if listing.history_length is None else listing.history_length
    history = histories.newest([row.pk for row in page], length) if length else None
    artifacts = None
    if listing.include_artifacts:
        artifacts = _by_task(Artifact.objects.delivered().filter(task__in=page) if page else ())
    return [
        wire.task(
            row,
            history=None if history is None else history[row.pk],
            artifacts=None if artifacts is None else artifacts[row.pk],
        )
        for row in page
    ]


def _by_task(artifacts: Iterable[Artifact]) -> dict[uuid.UUID, list[Artifact]]:
    grouped: dict[uuid.UUID, list[Artifact]] = defaultdict(list)
    for artifact in artifacts:
        grouped[artifact.task_id].append(artifact)
    return grouped
