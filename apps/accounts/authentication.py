"""Authentication: API keys, short-lived access tokens, and session cookies.

An access token is a sealed text that names a person, their session and one agent; nothing is stored. It ends when they
sign out, change the password or are deactivated. The REST framework's classes are at the end.
"""

from __future__ import annotations

import datetime
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

import db
from apps.accounts.encryption import CannotDecrypt, keyring
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import ANONYMOUS, Principal
from apps.accounts.sql import KEY_BY_PREFIX


class BadCredentials(Exception):
    """The API key is unknown, expired or revoked. Make a new one and send it as "Authorization: Bearer <key>"."""

    def __str__(self) -> str:
        return self.__doc__ or ""


FindKey = Callable[[str], ApiKey | None]
"""Looks a key, with its user, up by its prefix."""


def api_key_principal(authorization: str, find: FindKey = KEY_BY_PREFIX.one) -> Principal:
    """Whom an `Authorization` header speaks for: `find` is called at most once; no header is an anonymous caller.

    Raises BadCredentials for anything but a usable key in a `Bearer` header.
    """
    if not authorization:
        return ANONYMOUS
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise BadCredentials
    return verified_key(token.strip(), find).principal


def verified_key(token: str, find: FindKey = KEY_BY_PREFIX.one) -> ApiKey:
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


TRY_PREFIX = "try_"
ENCRYPTION_PURPOSE = "accounts.access_tokens"
TOKEN_LIFETIME = datetime.timedelta(minutes=10)


class BadToken(BadCredentials):
    """This token is for another agent, or has expired, or its owner signed out. Open the agent’s page for a new one."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says: whose it is, by which sign-in, at which agent, and until when (seconds since 1970)."""

    user_id: int
    session_key: str
    agent: str
    expires_at: int


FindSession = Callable[[Claims], tuple[User | None, Session | None]]
"""Looks up the person and the sign-in that a token names."""


def issue_access_token(user: User, session_key: str, agent: str) -> tuple[str, datetime.datetime]:
    """A token of `user`, whose sign-in has that key, for the agent of that slug; and when it expires."""
    expires = timezone.now().replace(microsecond=0) + TOKEN_LIFETIME
    claims = json.dumps([user.pk, session_key, agent, int(expires.timestamp())])
    return TRY_PREFIX + keyring().encrypt(claims, ENCRYPTION_PURPOSE), expires


def is_access_token(authorization: str) -> bool:
    """Does an `Authorization` header hold a token, good or bad?"""
    scheme, _, token = authorization.partition(" ")
    return scheme.lower() == "bearer" and token.strip().startswith(TRY_PREFIX)


def access_token_principal(authorization: str, agent: str, find: FindSession) -> Principal:
    """Whom the token of an `Authorization` header speaks for at an agent. Raises BadToken.

    `find` is called at most once, and not for a token that is not for this agent or no longer good.
    """
    claims = _claims(authorization.partition(" ")[2].strip())
    if claims.agent != agent or claims.expires_at <= timezone.now().timestamp():
        raise BadToken
    user, session = find(claims)
    if user is None or not user.is_active or session is None or not _is_current(session, user):
        raise BadToken
    return user.principal


def _claims(token: str) -> Claims:
    try:
        return Claims(*json.loads(keyring().decrypt(token.removeprefix(TRY_PREFIX), ENCRYPTION_PURPOSE)))
    except CannotDecrypt:
        raise BadToken from None


def _is_current(session: Session, user: User) -> bool:
    """Is this a sign-in of the user's, with the password that they have now?"""
    session_data = session.get_decoded()
    is_theirs = session_data.get(SESSION_KEY) == str(user.pk)
    has_current_password = constant_time_compare(session_data.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
    return is_theirs and has_current_password and session.expire_date > timezone.now()


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <API key>`; `request.auth` is the key. One query.

    Raises AuthenticationFailed for a header that holds anything else: who sends one means it.
    """

    def authenticate(self, request: Request) -> tuple[User, ApiKey] | None:
        authorization = request.headers.get("Authorization", "")
        if not authorization:
            return None
        scheme, _, token = authorization.partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise BadCredentials
            key = verified_key(token.strip())
        except BadCredentials as refusal:
            raise AuthenticationFailed(str(refusal)) from refusal
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="parley"'


class CookieAuthentication(SessionAuthentication):
    """The session cookie of a browser that is signed in; what writes must carry the CSRF token too.

    It looks at the cookie itself, for views that no middleware has prepared. Raises PermissionDenied without the token.
    """

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        user = session_user(request._request)
        if user is None:
            return None
        # As Django reads it: REST framework's own request takes nothing but JSON, also where a file is the body.
        self.enforce_csrf(cast(Request, request._request))
        return user, None


def session_user(request: HttpRequest) -> User | None:
    """Whom the request's session cookie belongs to by now; nobody after a sign-out or a change of password."""
    if not hasattr(request, "session"):
        cookie = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
        if not cookie:
            return None
        request.session = import_module(settings.SESSION_ENGINE).SessionStore(cookie)
    user = get_user(request)
    return user if isinstance(user, User) and user.is_active else None


def request_principal(request: Request) -> Principal:
    """The caller as the house knows one: with the scopes of the key, or with every right of the person."""
    if isinstance(request.auth, ApiKey):
        return request.auth.principal
    return request.user.principal if isinstance(request.user, User) else ANONYMOUS
