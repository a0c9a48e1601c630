"""How Django REST framework's views know their caller: by an API key, or by the session cookie of a browser."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.accounts.credentials import BadCredentials, key_of
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import ANONYMOUS, Principal


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
            key = key_of(token.strip())
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
        user = signed_in(request._request)
        if user is None:
            return None
        # As Django reads it: REST framework's own request takes nothing but JSON, also where a file is the body.
        self.enforce_csrf(cast(Request, request._request))
        return user, None


def signed_in(request: HttpRequest) -> User | None:
    """Whom the request's session cookie belongs to by now; nobody after a sign-out or a change of password."""
    if not hasattr(request, "session"):
        cookie = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
        if not cookie:
            return None
        request.session = import_module(settings.SESSION_ENGINE).SessionStore(cookie)
    user = get_user(request)
    return user if isinstance(user, User) and user.is_active else None


def principal_of(request: Request) -> Principal:
    """The caller as the house knows one: with the scopes of the key, or with every right of the person."""
    if isinstance(request.auth, ApiKey):
        return request.auth.principal
    return request.user.principal if isinstance(request.user, User) else ANONYMOUS
