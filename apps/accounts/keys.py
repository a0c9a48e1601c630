"""People's own API keys: making and revoking them, with limits and lines in the audit log."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from apps.accounts import quotas
from apps.accounts.models import ApiKey, AuditAct, User, write_audit_line
from apps.accounts.principals import SCOPES, Principal
from db.sql import write_transaction

MOST_KEYS = 100  # usable ones of one person


class KeyRefused(Exception):
    """The key cannot be made; the message says why."""


def make_key(
    maker: Principal, user: User, name: str, scopes: Iterable[str], lifetime: datetime.timedelta | None = None
) -> tuple[ApiKey, str]:
    """Make a key of `user`, who is the maker; returns the row and the key's text, which is not stored.

    Raises KeyRefused for no scope, an unknown one or one that the maker lacks; QuotaExceeded.
    """
    wanted = list(dict.fromkeys(scopes))
    if maker.user_id != user.pk:
        raise KeyRefused("You can make keys only for yourself.")
    if not wanted:
        raise KeyRefused("Choose at least one thing that the key may do.")
    if unknown := [scope for scope in wanted if scope not in SCOPES]:
        raise KeyRefused(f"There is no scope {', '.join(unknown)}. Choose from: {', '.join(SCOPES)}.")
    if lacking := [scope for scope in wanted if not maker.may(scope)]:
        raise KeyRefused(f"A key may do no more than its maker, who lacks the scope {', '.join(lacking)}.")
    quotas.count_key_change(maker)
    if ApiKey.objects.visible_to(maker).usable().count() >= MOST_KEYS:
        raise KeyRefused(f"You have {MOST_KEYS} keys. Revoke one that you no longer use.")
    with write_transaction():
        key, text = ApiKey.issue(user, name, scopes=wanted, lifetime=lifetime)
        write_audit_line(AuditAct.KEY_CREATED, key.pk, maker)
    return key, text


def revoke_key(principal: Principal, number: int) -> ApiKey:
    """Revoke the caller's own key; again changes nothing. Raises ApiKey.DoesNotExist, QuotaExceeded."""
    quotas.count_key_change(principal)
    with write_transaction():
        key = ApiKey.objects.visible_to(principal).select_for_update().get(pk=number)
        if key.revoked_at is None:
            key.revoke()
            write_audit_line(AuditAct.KEY_REVOKED, key.pk, principal)
    return key
