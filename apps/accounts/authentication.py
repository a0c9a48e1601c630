"""Authentication by API keys, short-lived access tokens and session cookies, with REST framework classes.

An access token is encrypted text with a user, their session and one agent; it is not stored. It ends when they sign
out, change the password or are deactivated.
"""

from __future__ import annotations

import datetime
import hmac
import json
import re
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


API_KEY_HEADER = re.compile(rf"(?i:bearer) \s*{ApiKey.MARK}_([^\W_]{{1,16}})_(\S+)\s*")


def split_key(authorization: str) -> tuple[str, str]:
    """The prefix and secret of the API key in an `Authorization` header. Raises BadCredentials."""
    found = API_KEY_HEADER.fullmatch(authorization)
    if found is None:
        raise BadCredentials
    return found[1], found[2]


def check_key(key: ApiKey | None, secret: str) -> ApiKey:
    """The key, if it is usable and has this secret; notes its use. Raises BadCredentials."""
    now = timezone.now()
    if key is None or not key.is_usable:
        raise BadCredentials
    if not key.user.is_active or not hmac.compare_digest(key.digest, ApiKey.digest_of(secret)):
        raise BadCredentials
    if key.last_used_at is None or now - key.last_used_at > ApiKey.TOUCH_AFTER:
        db.later(ApiKey.objects.filter(pk=key.pk).update, last_used_at=now)
    return key


def api_key_principal(authorization: str) -> Principal:
    """The caller of an `Authorization` header; anonymous if empty. One query. Raises BadCredentials."""
    if not authorization:
        return ANONYMOUS
    prefix, secret = split_key(authorization)
    return check_key(KEY_BY_PREFIX.one(prefix), secret).principal


TRY_PREFIX = "try_"
ACCESS_TOKEN_HEADER = re.compile(rf"(?i:bearer) \s*{TRY_PREFIX}")
ENCRYPTION_PURPOSE = "accounts.access_tokens"
TOKEN_LIFETIME = datetime.timedelta(minutes=10)


class BadToken(BadCredentials):
    """This token is for another agent, or has expired, or its owner signed out. Open the agent’s page for a new one."""


@dataclass(frozen=True, slots=True)
class Claims:
    """A token's content; `expires_at` in seconds since 1970."""

    user_id: int
    session_key: str
    agent: str
    expires_at: int


def issue_access_token(user: User, session_key: str, agent: str) -> tuple[str, datetime.datetime]:
    """A token for the agent with this slug, and its expiry."""
    expires = timezone.now().replace(microsecond=0) + TOKEN_LIFETIME
    claims = json.dumps([user.pk, session_key, agent, int(expires.timestamp())])
    return TRY_PREFIX + keyring().encrypt(claims, ENCRYPTION_PURPOSE), expires


def read_access_token(authorization: str, agent: str) -> Claims:
    """The claims in an `Authorization` header. Raises BadToken if expired or for another agent."""
    token = authorization.partition(" ")[2].strip()
    try:
        claims = Claims(*json.loads(keyring().decrypt(token.removeprefix(TRY_PREFIX), ENCRYPTION_PURPOSE)))
    except CannotDecrypt:
        raise BadToken from None
    if claims.agent != agent or claims.expires_at <= timezone.now().timestamp():
        raise BadToken
    return claims


def token_principal(user: User | None, session: Session | None) -> Principal:
    """The caller of a token with this user and session. Raises BadToken if either has ended."""
    if user is None or not user.is_active or session is None or not _is_current(session, user):
        raise BadToken
    return user.principal


def _is_current(session: Session, user: User) -> bool:
    """Is it the user's session, with their current password?"""
    session_data = session.get_decoded()
    is_theirs = session_data.get(SESSION_KEY) == str(user.pk)
    has_current_password = constant_time_compare(session_data.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
    return is_theirs and has_current_password and session.expire_date > timezone.now()


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <API key>`; `request.auth` is the key. Raises AuthenticationFailed."""

    def authenticate(self, request: Request) -> tuple[User, ApiKey] | None:
        authorization = request.headers.get("Authorization", "")
        if not authorization:
            return None
        try:
            prefix, secret = split_key(authorization)
            key = check_key(KEY_BY_PREFIX.one(prefix), secret)
        except BadCredentials as refusal:
            raise AuthenticationFailed(str(refusal)) from refusal
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="parley"'


class CookieAuthentication(SessionAuthentication):
    """The session cookie, for views without middleware. Raises PermissionDenied for a write without CSRF token."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        user = session_user(request._request)
        if user is None:
            return None
        # Django's request: REST framework's would parse the body, maybe a file, as JSON.
        self.enforce_csrf(cast(Request, request._request))
        return user, None


def session_user(request: HttpRequest) -> User | None:
    """The user of the session cookie; None after a sign-out or a password change."""
    if not hasattr(request, "session"):
        cookie = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
        if not cookie:
            return None
        request.session = import_module(settings.SESSION_ENGINE).SessionStore(cookie)
    user = get_user(request)
    return user if isinstance(user, User) and user.is_active else None


def request_principal(request: Request) -> Principal:
    """The caller, with their key's scopes or all rights."""
    if isinstance(request.auth, ApiKey):
        return request.auth.principal
    return request.user.principal if isinstance(request.user, User) else ANONYMOUS
