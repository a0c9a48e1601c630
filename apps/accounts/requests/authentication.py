"""Authentication by API keys, short-lived access tokens and session cookies, with REST framework classes.

An access token is encrypted text with a user, their session and one agent; it is not stored. It ends when they sign
out, change the password or are deactivated.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from allauth.idp.oidc.models import Client, Token
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user
from django.contrib.sessions.models import Session
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, UnreadablePostError
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from apps.accounts.clients import oauth
from apps.accounts.models import ApiKey, Membership, User
from apps.accounts.principals import ANONYMOUS, Principal, address_key
from apps.accounts.requests import bodies
from apps.accounts.requests.challenges import challenge
from apps.accounts.secrets import request_signatures
from apps.accounts.secrets.encryption import CannotDecrypt, keyring
from apps.accounts.sql import ACCESS_TOKEN, KEY_BY_PREFIX
from parley import db


class BadCredentials(Exception):
    """The API key is unknown, expired or revoked. Make a new one and send it as "Authorization: Bearer <key>"."""

    reason = ""  # for the audit

    def __str__(self) -> str:
        return self.__doc__ or ""


class NotSigned(BadCredentials):
    """The API key is accepted only in requests that its private key signed (RFC 9421)."""

    reason = "not signed"  # the secret was right

    def __init__(self, problem: str, request: HttpRequest | None) -> None:
        self.problem = problem
        self.headers = {"Accept-Signature": request_signatures.accept_signature(request)} if request else {}

    def __str__(self) -> str:
        return (
            f"This API key needs signed requests (RFC 9421), and this one is refused: {self.problem}. "
            f"Sign {', '.join(request_signatures.COVERED)}, and content-digest of a body, with created and nonce."
        )


class BadAccessToken(BadCredentials):
    """The access token is unknown, expired, revoked, or for another resource. Get a new one from the token endpoint."""


API_KEY_HEADER = re.compile(rf"(?i:bearer) \s*{ApiKey.MARK}_([^\W_]{{1,16}})_(\S+)\s*")


def split_key(authorization: str) -> tuple[str, str]:
    """The prefix and secret of the API key in an `Authorization` header. Raises BadCredentials."""
    found = API_KEY_HEADER.fullmatch(authorization)
    if found is None:
        raise BadCredentials
    return found[1], found[2]


class OpenStream(HttpRequest):
    """In place of a request, where an open stream is checked again: its signature and its door were checked."""


def check_key(key: ApiKey | None, secret: str, request: HttpRequest | None) -> ApiKey:
    """The key, if it is usable and has this secret; notes its use from the request's address. Raises BadCredentials.

    Without a request the last address stays.
    """
    now = timezone.now()
    if key is None or not key.is_usable:
        raise BadCredentials
    if not key.user.is_active or key.membership is None or not key.has_secret(secret):
        raise BadCredentials
    key.user.key_made_at = key.created_at
    if key.public_key and not isinstance(request, OpenStream):
        _check_signature(key, request)
    address = request.META.get("REMOTE_ADDR") if request else None
    if key.last_used_at is None or now - key.last_used_at > ApiKey.TOUCH_AFTER:
        where = {"last_used_from": address_key(address).removeprefix("at:")[:60]} if address else {}
        db.later(ApiKey.objects.filter(pk=key.pk).update, last_used_at=now, **where)
    return key


def _check_signature(key: ApiKey, request: HttpRequest | None) -> None:
    """Raises NotSigned. Whether the body is the signed one is found once it is received."""

    def check_body(body: bytes) -> None:
        """Raises NotSigned."""
        try:
            is_body(body)
        except request_signatures.Unsigned as refused:
            raise NotSigned(str(refused), request) from None

    try:
        if request is None:
            raise request_signatures.Unsigned("it cannot be signed")
        is_body = request_signatures.check_request(request, key.public_key, str(key))
        body = bodies.incoming(request)
        content = request.body if body is None else b""
    except request_signatures.Unsigned as refused:
        raise NotSigned(str(refused), request) from None
    except (RequestDataTooBig, UnreadablePostError):
        raise NotSigned("its body is too large to be checked. Send it in smaller pieces", request) from None
    if body is not None and bodies.has_body(request):
        body.verify = check_body
    else:
        check_body(content)


def api_key_principal(authorization: str, request: HttpRequest | None = None) -> Principal:
    """The caller of an `Authorization` header; anonymous if empty. One query. Raises BadCredentials."""
    if not authorization:
        return ANONYMOUS
    if token := access_token_in(authorization):
        return check_access_token(request, *(ACCESS_TOKEN.one(oauth.hash_of(token)) or (None, None, None)))
    prefix, secret = split_key(authorization)
    return check_key(KEY_BY_PREFIX.one(prefix), secret, request).principal


def access_token_in(authorization: str) -> str:
    """The OAuth access token in an `Authorization` header; "" if it holds something else."""
    found = oauth.TOKEN_HEADER.fullmatch(authorization) if settings.OAUTH_ENABLED else None
    return found[1] if found else ""


def check_access_token(
    request: HttpRequest | None, token: Token | None, client: Client | None, user: User | None
) -> Principal:
    """The caller of an OAuth access token, which must be for the door that is asked. Raises BadAccessToken."""
    principal = oauth.oauth_principal(token, client, user)
    if principal is None or token is None or user is None:
        raise BadAccessToken
    if not isinstance(request, OpenStream) and not oauth.opens(token, request.path_info if request else ""):
        raise BadAccessToken
    user.acts_by_program = True
    return principal


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
    """`Authorization: Bearer <API key or OAuth access token>`. Raises AuthenticationFailed.

    `request.auth` is the key, or the principal of the token.
    """

    def authenticate(self, request: Request) -> tuple[User, ApiKey | Principal] | None:
        authorization = request.headers.get("Authorization", "")
        if not authorization:
            return None
        try:
            if token := access_token_in(authorization):
                found = ACCESS_TOKEN.one(oauth.hash_of(token)) or (None, None, None)
                principal = check_access_token(request._request, *found)
                return cast(User, found[2]), principal
            prefix, secret = split_key(authorization)
            key = check_key(KEY_BY_PREFIX.one(prefix), secret, request._request)
        except BadCredentials as refusal:
            raise AuthenticationFailed(str(refusal)) from refusal
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        return challenge()


WORKSPACE_HEADER = "X-Parley-Workspace"
NO_MEMBER = f"{WORKSPACE_HEADER} names no workspace of yours, or not that of your key."


class CookieAuthentication(SessionAuthentication):
    """The session cookie, for views without middleware. Raises PermissionDenied for a write without CSRF token."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        user = session_user(request._request)
        if user is None:
            return None
        self.enforce_csrf(cast(Request, bodies.head_of(request._request)))
        if (named := request.headers.get(WORKSPACE_HEADER)) is not None:
            user.membership = _named_membership(user, named)
        return user, None


def _named_membership(user: User, workspace: str) -> Membership:
    """Raises PermissionDenied."""
    known = workspace.isascii() and workspace.isdigit() and len(workspace) < 19
    found = Membership.objects.filter(user=user, workspace=int(workspace)).first() if known else None
    if found is None:
        raise PermissionDenied(NO_MEMBER)
    return found


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
    """The caller, with their key's scopes or all rights. Raises PermissionDenied if they name another workspace."""
    caller = ANONYMOUS
    if isinstance(request.auth, Principal):
        caller = request.auth
    elif isinstance(request.auth, ApiKey):
        caller = request.auth.principal
    elif isinstance(request.user, User):
        caller = request.user.principal
    named = request.headers.get(WORKSPACE_HEADER)
    if named is not None and caller.is_known and named != str(caller.workspace_id):
        raise PermissionDenied(NO_MEMBER)
    return caller
