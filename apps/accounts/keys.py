"""People's own API keys: making, rotating and revoking them, with limits, and recorded in the audit.

A key makes and changes only keys that are no wider than itself: in scopes, agents, lifetime and workspace. When it is
revoked, so are the keys that it made.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import Kind, Refusal
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import KEYS, SCOPES, Principal
from apps.accounts.requests import quotas
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.accounts.secrets.key_format import texts_of_keys
from parley.db.sql import write_transaction

MOST_KEYS = 100  # usable ones of one person
ROTATION_GRACE = datetime.timedelta(hours=24)  # for which the secret before works
LONGEST_GRACE = datetime.timedelta(days=7)


class KeyRefused(Refusal):
    """The key cannot be made or changed; the message says why."""

    kind = Kind.FORBIDDEN


class ScopesRefused(KeyRefused):
    """The key cannot have these scopes; the message says why."""

    field = "scopes"


class Reach(NamedTuple):
    """What a key may do. Empty scopes or agents mean all, and no expiry means for ever.

    Attributes:
        is_signed: only signed requests may use it.
    """

    workspace_id: int | None
    scopes: Iterable[str]
    agents: Iterable[str]
    expires_at: datetime.datetime | None
    is_signed: bool


def reach_of(key: ApiKey) -> Reach:
    return Reach(key.workspace_id, key.scopes, key.agents, key.expires_at, bool(key.public_key))


def excess(maker: Principal, own: ApiKey | None, wanted: Reach) -> str:
    """In what `wanted` goes beyond the maker, who uses the key `own`; "" if in nothing."""
    expires_at = own.expires_at if own else None
    scopes, agents = list(wanted.scopes), list(wanted.agents)
    if maker.scopes is not None and not (scopes and maker.scopes.issuperset(scopes)):
        lacking = [scope for scope in scopes or SCOPES if scope not in maker.scopes]
        return f"A key may do no more than its maker, who lacks the scope {', '.join(lacking)}."
    if maker.agents is not None and not (agents and maker.agents.issuperset(agents)):
        return f"A key reaches no more agents than its maker, who reaches {', '.join(sorted(maker.agents))}."
    if expires_at is not None and (wanted.expires_at is None or wanted.expires_at > expires_at):
        return f"A key lives no longer than its maker, which expires at {expires_at:%Y-%m-%d %H:%M} UTC."
    if own and own.public_key and not wanted.is_signed:
        return "A key whose requests are signed makes only such keys. Give a public key."
    if wanted.workspace_id != maker.workspace_id:
        return "A key belongs to the workspace of its maker."
    return ""


def make_key(
    maker: Principal,
    user: User,
    name: str,
    scopes: Iterable[str],
    lifetime: datetime.timedelta | None = None,
    agents: Iterable[str] = (),
    public_key: str = "",
) -> tuple[ApiKey, str]:
    """Make a key of `user`, who is the maker; returns the row and the key's text, which is not stored.

    Args:
        agents: the slugs of the only agents that the key reaches, which the maker may use; none means all.
        public_key: as `read_public_key` gives it; requests with the key must be signed by its private key.

    Raises KeyRefused for no scope, an unknown one, or more than the maker has; QuotaExceeded.
    """
    wanted, slugs = list(dict.fromkeys(scopes)), list(dict.fromkeys(agents))
    if maker.user_id != user.pk:
        raise KeyRefused("You can make keys only for yourself.")
    if maker.key and user.needs_proof:  # the new key would be younger than their second factor
        raise KeyRefused("This key is older than your second factor. Sign in, and make the new key there.")
    if not wanted:
        raise ScopesRefused("Choose at least one thing that the key may do.")
    if unknown := [scope for scope in wanted if scope not in SCOPES]:
        raise ScopesRefused(f"There is no scope {', '.join(unknown)}. Choose from: {', '.join(SCOPES)}.")
    quotas.count_key_change(maker)
    if ApiKey.objects.filter(user=user).usable().count() >= MOST_KEYS:
        raise KeyRefused(f"You have {MOST_KEYS} keys. Revoke one that you no longer use.")
    with write_transaction():
        own = _own_key(maker)
        expires_at = timezone.now() + lifetime if lifetime else None
        reach = Reach(maker.workspace_id, wanted, slugs, expires_at, bool(public_key))
        if problem := excess(maker, own, reach):
            raise KeyRefused(problem)
        key, text = ApiKey.issue(
            user,
            name,
            scopes=wanted,
            agents=slugs,
            lifetime=lifetime,
            workspace_id=maker.workspace_id,
            made_by=maker.key_id,
            public_key=public_key,
        )
        record_new_key(key, maker)
    return key, text


def _own_key(maker: Principal) -> ApiKey | None:
    """The key that the maker uses; it cannot be revoked meanwhile. Raises KeyRefused if it has ended or lacks KEYS."""
    if not maker.may(KEYS) and maker.key_id is not None:
        raise KeyRefused(f"This API key is missing the scope {KEYS}.")
    if maker.key_id is None:
        return None
    own = ApiKey.objects.select_for_update().filter(pk=maker.key_id).first()
    if own is None or not own.is_usable:
        raise KeyRefused("The API key that asks is revoked or has expired.")
    return own


def rotate_key(principal: Principal, number: int, grace: datetime.timedelta = ROTATION_GRACE) -> tuple[ApiKey, str]:
    """Give the caller's own key a new secret; the old one works for the grace period. Returns the row and the text.

    Raises NotFound, KeyRefused for an ended key or a wider one than the caller's, QuotaExceeded.
    """
    quotas.count_key_change(principal)
    with write_transaction():
        own = _own_key(principal)
        key = ApiKey.objects.select_for_update().find(principal, number)
        if not key.is_usable:
            raise KeyRefused("This key is revoked or has expired. Make a new one.")
        _check_no_wider(principal, own, key)
        key.previous_digest, key.previous_until = key.digest, timezone.now() + min(grace, LONGEST_GRACE)
        text = key.give_secret()
        key.save(update_fields=["digest", "previous_digest", "previous_until"])
        details = {"name": key.name, "grace_seconds": int(min(grace, LONGEST_GRACE).total_seconds())}
        audit.record(AuditAction.KEY_ROTATED, actor=principal, object=key, details=details)
    return key, text


def _check_no_wider(principal: Principal, own: ApiKey | None, key: ApiKey) -> None:
    """Raises KeyRefused. The caller's own key is not wider than itself."""
    if principal.key_id not in (None, key.pk) and (problem := excess(principal, own, reach_of(key))):
        raise KeyRefused(f"This key may do more than the one that you use. {problem}")


def revoke(key: ApiKey, principal: Principal) -> ApiKey:
    """Revoke a key, and those that it made. Raises NotNeeded, KeyRefused for a wider key than the caller's."""
    with write_transaction():
        own = _own_key(principal)
        key = ApiKey.objects.select_for_update().get(pk=key.pk)
        _check_no_wider(principal, own, key)
        if key.revoked_at is not None:
            raise NotNeeded("It is revoked already.")
        end_key(key, partial(_record_end, AuditAction.KEY_REVOKED, actor=principal))
    return key


REVOKE = Act[ApiKey](
    "revoke",
    "Revoke",
    revoke,
    "Revoke an API key",
    "Requests with the key are refused at once, and its open streams end within seconds. The keys that it created are "
    "revoked, too.",
    lambda key: f"“{key.name}” is revoked. Programs that use it are refused from now on.",
    lambda key: key.is_usable,
    scope=KEYS,
    changes_keys=True,
    is_grave=True,
    records=True,
    icon="block",
)
KEYS_OF_PEOPLE = Resource("keys", "key", ApiKey, acts=(REVOKE,))


def end_key(key: ApiKey, record: Callable[[ApiKey], object], because: str = "") -> None:
    """Revoke a key, and those that it made, in the open transaction; `record` is called for each, last."""
    ended, found = [key], [key]
    key.revoke(because)
    while found:
        found = list(ApiKey.objects.filter(made_by__in=found, revoked_at=None))
        for made in found:
            made.revoke(ApiKey.Reason.MAKER)
        ended += found
    for one in ended:
        record(one)


def revoke_leaked_keys(leaked: Mapping[str, str]) -> dict[str, ApiKey]:
    """Revoke the usable keys of these texts: whoever has a key's secret may end it.

    Args:
        leaked: texts with keys, each with where it was found, for the audit.

    Returns the texts that contained a usable key, each with one.
    """
    secrets: dict[str, list[tuple[str, str]]] = {}
    for text in leaked:
        for found in texts_of_keys(text):
            _, prefix, secret = found.split("_", 2)
            secrets.setdefault(prefix, []).append((secret, text))
    revoked: dict[str, ApiKey] = {}
    with write_transaction():
        rows = ApiKey.objects.select_for_update().filter(prefix__in=secrets, revoked_at=None).order_by("pk")
        for key in rows:
            if known := [text for secret, text in secrets[key.prefix] if key.has_secret(secret)]:
                source = leaked[known[0]]
                record = partial(_record_end, AuditAction.KEY_LEAKED, actor=None, source=source)
                end_key(key, record, ApiKey.Reason.LEAKED)
                revoked |= dict.fromkeys(known, key)
    return revoked


def _record_end(action: AuditAction, key: ApiKey, actor: Principal | None, source: str = "") -> None:
    details = {"name": key.name} | ({"source": source} if source else {})
    audit.record(action, actor=actor, object=key, details=details)


def record_new_key(key: ApiKey, maker: Principal | None = None) -> None:
    details = {"name": key.name, "of": key.user.email, "scopes": key.scopes, "agents": key.agents}
    details |= {"signed": True} if key.public_key else {}
    audit.record(AuditAction.KEY_CREATED, actor=maker, object=key, details=details)
