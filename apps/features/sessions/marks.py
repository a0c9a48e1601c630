"""What a person notes of a conversation for themselves: that it stays on top of their list, and how far they saw it."""

from __future__ import annotations

import uuid

from django.db.models import Exists, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from apps.accounts.principals import Principal
from apps.features.sessions.models import SessionMark
from apps.record.errors import ContextNotFound
from apps.record.models import Context, Message
from apps.record.models.record import ContextQuerySet
from db.transactions import transacting


def mark(
    principal: Principal, session: uuid.UUID, *, pinned: bool | None = None, seen: int | None = None
) -> SessionMark:
    """Pin a conversation of the caller's or unpin it, and say up to which event it was seen; what is None stays.

    What was seen once stays seen, and nobody has seen what is not there yet. Raises ContextNotFound.
    """
    context = Context.objects.visible_to(principal).filter(pk=session).first()
    if context is None or principal.user_id is None:
        raise ContextNotFound
    with transacting():
        own, _ = SessionMark.objects.get_or_create(user_id=principal.user_id, context=context)
        row = SessionMark.objects.filter(pk=own.pk)
        if pinned is not None:
            row.filter(pinned_at__isnull=pinned).update(pinned_at=timezone.now() if pinned else None)
        if seen is not None:
            row.filter(seen__lt=(upto := min(seen, context.last_event))).update(seen=upto)
        return row.get()


def with_marks(contexts: ContextQuerySet, principal: Principal) -> ContextQuerySet:
    """Contexts, each with `pinned_at`, `seen`, and whether an agent said something that was not: `unread`."""
    own = SessionMark.objects.visible_to(principal).filter(context=OuterRef("pk"))
    seen = Coalesce(Subquery(own.values("seen")[:1]), 0)
    said = Message.objects.filter(context=OuterRef("pk"), role=Message.Role.AGENT, index__gt=OuterRef("seen"))
    return contexts.annotate(pinned_at=Subquery(own.values("pinned_at")[:1]), seen=seen).annotate(unread=Exists(said))


def pinned(principal: Principal) -> Q:
    """Of contexts, those that the caller pinned."""
    keys = SessionMark.objects.visible_to(principal).filter(pinned_at__isnull=False)
    return Q(pk__in=keys.values("context"))


def forget(context: Context) -> None:
    """Delete what people noted of a context that is being erased."""
    SessionMark.objects.filter(context=context).delete()
