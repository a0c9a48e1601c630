"""A person's own marks on a session: pinned, and how far it was seen."""

from __future__ import annotations

import uuid

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from apps.accounts.principals import Principal
from apps.conversations.sessions.models import SessionMark
from apps.record.errors import ContextNotFound
from apps.record.models import ContextQuerySet, Message
from apps.record.reading.lookup import find_session
from parley.db.sql import Keys, write_transaction


def update_mark(
    principal: Principal, session: uuid.UUID, *, pinned: bool | None = None, seen: int | None = None
) -> SessionMark:
    """Pin or unpin the caller's session, and note up to which event it was seen. None leaves a value unchanged.

    `seen` never decreases, and never exceeds the last event. Raises ContextNotFound.
    """
    context = find_session(principal, session, restore=False)
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
    """Contexts with their `family`, each with `seen`, `unread`: whether an agent has said something since, and
    `is_pinned`: whether one of its family is.
    """
    own = SessionMark.objects.filter(user=principal.user_id, context=OuterRef("pk"))
    seen = Coalesce(Subquery(own.values("seen")[:1]), 0)
    said = Message.objects.filter(context=OuterRef("pk"), role=Message.Role.AGENT, index__gt=OuterRef("seen"))
    pinned = _pinned(principal).annotate(family=MARKED_FAMILY).filter(family=OuterRef("family"))
    return contexts.annotate(is_pinned=Exists(pinned), seen=seen).annotate(unread=Exists(said))


MARKED_FAMILY = Coalesce("context__root", "context_id")


def pinned_filter(principal: Principal) -> Q:
    """For contexts with their `family`."""
    return Q(family__in=_pinned(principal).values(key=MARKED_FAMILY))


def is_any_pinned(principal: Principal) -> bool:
    """Whether the caller has pinned any session, in any of their workspaces."""
    return _pinned(principal).exists()


def _pinned(principal: Principal) -> QuerySet[SessionMark]:
    return SessionMark.objects.filter(user=principal.user_id, pinned_at__isnull=False)


def unpin_family(principal: Principal, session: uuid.UUID) -> None:
    """Unpin all of a session's family. Raises ContextNotFound."""
    family = find_session(principal, session, restore=False).family_key
    pinned = _pinned(principal).annotate(family=MARKED_FAMILY).filter(family=family)
    SessionMark.objects.filter(pk__in=list(pinned.values_list("pk", flat=True))).update(pinned_at=None)


def erase_marks(contexts: Keys) -> None:
    SessionMark.objects.filter(context__in=contexts).delete()
