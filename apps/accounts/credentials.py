"""From an `Authorization` header to a principal."""

import hmac
from collections.abc import Callable

from django.utils import timezone

import db
from apps.accounts.models import ApiKey
from apps.accounts.principals import ANONYMOUS, Principal
from db.selections import Selection

KEY = Selection(lambda prefix: ApiKey.objects.select_related("user").filter(prefix=prefix), "prefix")


class BadCredentials(Exception):
    """The API key is unknown, expired or revoked. Make a new one and send it as "Authorization: Bearer <key>"."""

    def __str__(self) -> str:
        return self.__doc__ or ""


Find = Callable[[str], ApiKey | None]
"""Looks a key, with its user, up by its prefix."""


def principal_of(authorization: str, find: Find = KEY.one) -> Principal:
    """Whom an `Authorization` header speaks for: `find` is called at most once; no header is an anonymous caller.

    Raises BadCredentials for anything but a usable key in a `Bearer` header.
    """
    if not authorization:
        return ANONYMOUS
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise BadCredentials
    return key_of(token.strip(), find).principal


def key_of(token: str, find: Find = KEY.one) -> ApiKey:
    """The usable key whose text this is. Raises BadCredentials."""
    mark, _, rest = token.partition("_")
    prefix, _, secret = rest.partition("_")
    if mark != ApiKey.MARK or not prefix.isalnum() or len(prefix) > 16:
        raise BadCredentials
    key = find(prefix)
    if key is None or not key.is_usable or not hmac.compare_digest(key.digest, ApiKey.digest_of(secret)):
        raise BadCredentials
    if key.last_used_at is None or timezone.now() - key.last_used_at > ApiKey.TOUCH_AFTER:
        db.later(ApiKey.objects.filter(pk=key.pk).update, last_used_at=timezone.now())
    return key
