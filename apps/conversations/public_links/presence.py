"""Who has a shared session open now. Pages renew their rows; a row that is not renewed ends by itself."""

from __future__ import annotations

import datetime

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.conversations.public_links.models import Presence
from apps.record.models import Context
from parley.db import sql

RENEW_SECONDS = 4.0
LASTS = datetime.timedelta(seconds=3 * RENEW_SECONDS)


def renew(principal: Principal, context: Context) -> list[User]:
    """Note that the caller has the session open, and find who else has. Two queries."""
    now = sql.database_time()
    Presence.objects.bulk_create(
        [Presence(context=context, user_id=principal.user_id, seen_at=now)],  # type: ignore[misc]
        update_conflicts=True,
        unique_fields=["context", "user"],
        update_fields=["seen_at"],
    )
    here = Presence.objects.filter(context=context, seen_at__gt=now - LASTS).exclude(user=principal.user_id)
    return list(User.objects.filter(pk__in=here.values("user")).order_by("pk"))


def leave(principal: Principal, context: Context) -> None:
    """The page was closed; another one of the same person renews the row."""
    Presence.objects.filter(context=context, user=principal.user_id).delete()
