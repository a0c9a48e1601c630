"""What its owner says of a conversation: what it is called, and that it is put away."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from apps.accounts.principals import Principal
from apps.record import ledger
from apps.record.errors import ContextNotFound
from apps.record.events import EventType
from apps.record.ledger import Ledger
from apps.record.models import Context


def rename(principal: Principal, session: uuid.UUID, title: str) -> Context:
    """Call the caller's conversation by this title (1 to 200 characters). Raises ContextNotFound."""

    def change(log: Ledger) -> None:
        if log.context.title != title:
            log.add(EventType.SESSION_RENAMED, {"title": title})

    return _changed(principal, session, change)


def archive(principal: Principal, session: uuid.UUID) -> Context:
    """Put the caller's conversation away: lists leave it out until something is said in it. Raises ContextNotFound."""

    def change(log: Ledger) -> None:
        if log.context.archived_at is None:
            log.add(EventType.SESSION_ARCHIVED, {})

    return _changed(principal, session, change)


def unarchive(principal: Principal, session: uuid.UUID) -> Context:
    """Bring the caller's conversation back into lists. Raises ContextNotFound."""

    def change(log: Ledger) -> None:
        if log.context.archived_at is not None:
            log.add(EventType.SESSION_UNARCHIVED, {})

    return _changed(principal, session, change)


def _changed(principal: Principal, session: uuid.UUID, change: Callable[[Ledger], None]) -> Context:
    """The conversation after the change; what is so already is not recorded again."""
    found = Context.objects.visible_to(principal).select_related("agent").filter(pk=session).first()
    if found is None:
        raise ContextNotFound
    try:
        with ledger.writing(found) as log:
            change(log)
    except Context.DoesNotExist:  # it was deleted just now
        raise ContextNotFound from None
    return log.context
