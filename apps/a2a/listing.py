"""Listing a caller's tasks at an agent, page by page (A2A 1.0 §3.1.4)."""

from __future__ import annotations

import datetime
import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterable

from django.conf import settings
from django.core import signing
from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from apps.a2a.errors import JSON
from apps.a2a.requests import Listing
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations import wire
from apps.conversations.errors import InvalidParams
from apps.conversations.models import Artifact, Message, Task, TaskQuerySet

MOST_COUNTED = 10_000  # totalSize is exact up to here, and no more than this is ever counted


def list_tasks(principal: Principal, agent: Agent, listing: Listing) -> JSON:
    """ListTasksResponse: the newest status first. At most four queries, however many tasks. Raises InvalidParams.

    An anonymous caller lists nothing: what belongs to nobody is not shown to everybody.
    """
    binding = _binding(principal, agent, listing)
    after = _read_token(listing.page_token, binding) if listing.page_token else None
    found = _filtered(principal, agent, listing)
    rows = _page(found, after, listing.page_size + 1)
    page, has_more = rows[: listing.page_size], len(rows) > listing.page_size
    whole = after is None and not has_more
    return {
        "tasks": _shown(page, listing),
        "nextPageToken": _token(page[-1], binding) if has_more else "",
        "pageSize": listing.page_size,
        "totalSize": len(page) if whole else found.order_by()[:MOST_COUNTED].count(),
    }


def _filtered(principal: Principal, agent: Agent, listing: Listing) -> TaskQuerySet:
    if not principal.is_known:
        return Task.objects.none()
    found = Task.objects.visible_to(principal).filter(agent=agent)
    if listing.context:
        found = found.filter(context__context_id=listing.context, context__owner_id=principal.user_id)
    if listing.state is not None:
        found = found.filter(state=listing.state)
    if listing.since is not None:
        found = found.filter(status_at__gte=listing.since)
    return found


def _page(found: TaskQuerySet, after: tuple[datetime.datetime, uuid.UUID] | None, size: int) -> list[Task]:
    if after is not None:
        at, key = after
        # The first condition is implied by the second; it is what lets the index begin at the right place.
        found = found.filter(Q(status_at__lte=at), Q(status_at__lt=at) | Q(pk__lt=key))
    return list(found.select_related("context").order_by("-status_at", "-id")[:size])


def _shown(page: list[Task], listing: Listing) -> list[JSON]:
    length = settings.DEFAULT_HISTORY_LENGTH if listing.history_length is None else listing.history_length
    history = _by_task(_newest_messages(page, length)) if length else None
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


def _newest_messages(page: list[Task], length: int) -> Iterable[Message]:
    """The newest messages of each task, oldest first."""
    if not page:
        return ()
    rank = Window(RowNumber(), partition_by=F("task"), order_by=F("index").desc())
    ranked = Message.objects.filter(task__in=page).annotate(rank=rank)
    return ranked.filter(rank__lte=length).order_by("index")


def _by_task[T: (Message, Artifact)](rows: Iterable[T]) -> dict[uuid.UUID | None, list[T]]:
    grouped: dict[uuid.UUID | None, list[T]] = defaultdict(list)
    for row in rows:
        grouped[row.task_id].append(row)
    return grouped


def _binding(principal: Principal, agent: Agent, listing: Listing) -> str:
    """What a page token is bound to: it is of no use to another caller, or with other filters."""
    bound = (principal.sender, agent.pk, listing.context, listing.state, listing.since)
    return "a2a.tasks." + hashlib.sha256(repr(bound).encode()).hexdigest()


def _token(last: Task, binding: str) -> str:
    return signing.dumps([last.status_at.isoformat(), last.pk.hex], salt=binding, compress=False)


def _read_token(token: str, binding: str) -> tuple[datetime.datetime, uuid.UUID]:
    try:
        at, key = signing.loads(token, salt=binding)
    except signing.BadSignature:
        raise InvalidParams("Is none that this list gave. Begin again without one.", "pageToken") from None
    return datetime.datetime.fromisoformat(at), uuid.UUID(key)
