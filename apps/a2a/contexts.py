"""Listing a caller's conversations with an agent: `contexts/list` of the extension (docs/extensions)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.db.models import Count, Q

from apps.a2a.errors import JSON
from apps.a2a.requests import ContextListing
from apps.a2a.tokens import Cursor, binding, read_token, token
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record import wire
from apps.record.cold import cold_task_counts
from apps.record.models import Context, Task


def list_contexts(principal: Principal, agent: Agent, listing: ContextListing) -> JSON:
    """The caller's contexts that are with this agent now, the one in which something happened last first.

    Two queries. An anonymous caller lists nothing. Raises InvalidParams.
    """
    bound = binding("contexts", principal.sender, agent.pk)
    after = read_token(listing.page_token, bound)
    rows = _page(principal, agent, after, listing.page_size + 1) if principal.is_known else []
    page, has_more = rows[: listing.page_size], len(rows) > listing.page_size
    counts = _task_counts(agent, [row.pk for row in page])
    return {
        "contexts": [
            {
                "contextId": row.context_id,
                "taskCount": counts.get(row.pk, 0),
                "lastUpdated": wire.timestamp(row.updated_at),
            }
            for row in page
        ],
        "nextPageToken": token((page[-1].updated_at, page[-1].pk), bound) if has_more else "",
    }


def _page(principal: Principal, agent: Agent, after: Cursor | None, size: int) -> list[Context]:
    found = Context.objects.visible_to(principal).listed().filter(agent=agent)
    if after is not None:
        at, key = after
        # The first condition is implied by the second; it is what lets the index begin at the right place.
        found = found.filter(Q(updated_at__lte=at), Q(updated_at__lt=at) | Q(pk__lt=key))
    return list(found.only("context_id", "updated_at").order_by("-updated_at", "-id")[:size])


def _task_counts(agent: Agent, contexts: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    if not contexts:
        return {}
    found = Task.objects.filter(context__in=contexts, agent=agent).values_list("context").annotate(Count("pk"))
    return {**cold_task_counts(contexts), **dict(found.order_by())}
