"""A person's own marks on a session: pinned, and how far it was seen."""

from __future__ import annotations

import uuid

from django.db.models import Exists, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from apps.accounts.principals import Principal
from apps.features.sessions.models import SessionMark
from apps.record.errors import ContextNotFound
from apps.record.lookup import find_session
from apps.record.models import Context, ContextQuerySet, Message
from db.sql import write_transaction


def update_mark(
    principal: Principal, session: uuid.UUID, *, pinned: bool | None = None, seen: int | None = None
) -> SessionMark:
    """Pin or unpin the caller's session, and note up to which event it was seen. None leaves a value unchanged.

    `seen` never decreases, and never exceeds the last event. Raises ContextNotFound.
    """
    context = find_session(principal, session)
    if principal.user_id is None:
        raise ContextNotFound
    with write_transaction():
        own, _ = SessionMark.objects.get_or_create(user_id=principal.user_id, context=context)
        row = SessionMark.objects.filter(pk=own.pk)
        if pinned is not None:
            row.filter(pinned_at__isnull=pinned).update(pinned_at=timezone.now() if pinned else None)
        if seen is not None:
            row.filter(seen__lt=(upto := min(seen, context.last_event))).update(seen=upto)
        return row.get()


def with_marks(contexts: ContextQuerySet, principal: Principal) -> ContextQuerySet:
    """Contexts, each with `pinned_at`, `seen`, and `unread`: whether an agent has said something since."""
    own = SessionMark.objects.filter(user=principal.user_id, context=OuterRef("pk"))
    seen = Coalesce(Subquery(own.values("seen")[:1]), 0)
    said = Message.objects.filter(context=OuterRef("pk"), role=Message.Role.AGENT, index__gt=OuterRef("seen"))
    return contexts.annotate(pinned_at=Subquery(own.values("pinned_at")[:1]), seen=seen).annotate(unread=Exists(said))


def pinned_filter(principal: Principal) -> Q:
    return Q(pk__in=SessionMark.objects.filter(user=principal.user_id, pinned_at__isnull=False).values("context"))


def erase_marks(context: Context) -> None:
    SessionMark.objects.filter(context=context).delete()
