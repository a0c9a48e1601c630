"""What a caller may do: what the scopes of an API key say; a browser's session may everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from apps.accounts.authentication import principal_of
from apps.accounts.principals import READ, SCOPES, WRITE

if TYPE_CHECKING:
    from rest_framework.views import APIView  # which reads the setting that names this module


class InScope(BasePermission):
    """A known caller: one that may read for the methods that change nothing, one that may write for the others.

    A view whose POST changes nothing says so by `scopes = {"POST": READ}`.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        principal = principal_of(request)
        if not principal.is_known:
            return False
        scope = WRITE if request.method not in SAFE_METHODS else READ
        scope = getattr(view, "scopes", {}).get(request.method, scope)
        self.message = f"This API key may not do this: it lacks the scope {scope}, to {SCOPES[scope]}."
        return principal.may(scope)
