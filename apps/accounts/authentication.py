"""Bearer authentication for Django REST framework."""

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.accounts.credentials import BadCredentials, key_of
from apps.accounts.models import ApiKey, User


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <API key>`; `request.auth` is the key. One query."""

    def authenticate(self, request: Request) -> tuple[User, ApiKey] | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        try:
            key = key_of(token.strip())
        except BadCredentials as refusal:
            raise AuthenticationFailed(str(refusal)) from refusal
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="parley"'
