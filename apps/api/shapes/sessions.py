"""Sessions: what lists show of conversations."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.conf import settings
from django.db.models import Count, F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from apps.api.shapes.naming import JSON, Slugs, slugs_of, timestamp
from apps.record.models import Context, Message, Segment


def session_json(context: Context) -> JSON:
    """A session as it is. Asks for its agent and the number of its messages."""
    return sessions_json([context])[0]


def sessions_json(contexts: Sequence[Context]) -> list[JSON]:
    """Sessions as they are. At most three queries."""
    slugs, counts = slugs_of(context.agent_id for context in contexts), _message_counts(contexts)
    return [said_of(context, slugs, counts.get(context.pk, 0)) for context in contexts]


def said_of(context: Context, slugs: Slugs, message_count: int) -> JSON:
    """A session of which everything is known."""
    slug = slugs[context.agent_id]
    return {
        "id": str(context.pk),
        "title": context.title,
        "createdAt": timestamp(context.created_at),
        "updatedAt": timestamp(context.updated_at),
        "parentId": str(context.parent_id) if context.parent_id else None,
        "revision": context.last_event,
        "archivedAt": timestamp(context.archived_at) if context.archived_at else None,
        "metadata": {
            "agentUrl": f"{settings.PUBLIC_BASE_URL}/a2a/{slug}",
            "agent": slug,
            "contextId": context.context_id,
            "messageCount": message_count,
            "options": context.options,
            "forkedAt": context.forked_at,
            "forkReason": context.fork_reason,
        },
    }


def _message_counts(contexts: Sequence[Context]) -> dict[uuid.UUID, int]:
    """How many messages each has, with those of its past."""
    own = Message.objects.filter(context__in=[context.pk for context in contexts])
    counts = dict(own.values_list("context").annotate(Count("pk")).order_by())
    forks = [context.pk for context in contexts if context.forked_at is not None]
    for fork, number in _of_the_past(forks) if forks else ():
        counts[fork] = counts.get(fork, 0) + number
    return counts | {context.pk: context.cold_messages for context in contexts if context.cold_file}


def _of_the_past(forks: list[uuid.UUID]) -> list[tuple[uuid.UUID, int]]:
    said = Message.objects.filter(
        context=OuterRef("source"), index__gte=OuterRef("first"), index__lte=OuterRef("last")
    ).order_by()
    number = Subquery(said.values("context").annotate(number=Count("pk")).values("number"))
    segments = Segment.objects.filter(context__in=forks).annotate(number=Coalesce(number, 0)).order_by()
    return list(segments.values_list(F("context"), F("number")))
