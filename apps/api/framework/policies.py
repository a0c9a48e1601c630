"""DRF's permission, parser and renderer. Settings name them; DRF imports them early."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from apps.accounts.models import check_operates
from apps.accounts.principals import READ, WRITE
from apps.accounts.requests.authentication import request_principal
from apps.record.content import strict_json
from apps.record.errors import check_allowed

if TYPE_CHECKING:
    from rest_framework.views import APIView


class InScope(BasePermission):
    """Requires the scope to read, or to write for unsafe methods, of the credential, and its permission of the role.

    A view whose POST changes nothing declares `scopes = {"POST": READ}`; one that needs another permission than that of
    its scope, `permissions`; one for operators alone, the `rights` of admin that they need.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        principal = request_principal(request)
        if not principal.is_known:
            return False
        scope = WRITE if request.method not in SAFE_METHODS else READ
        scope = getattr(view, "scopes", {}).get(request.method, scope)
        check_allowed(principal, scope, getattr(view, "permissions", {}).get(request.method))
        if right := getattr(view, "rights", {}).get(request.method):
            check_operates(principal, right)
        return True


class StrictJSON(BaseParser):
    """Raises ParseError, UnsupportedMediaType for compressed bodies."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        if parser_context and "Content-Encoding" in parser_context["request"].headers:
            raise UnsupportedMediaType(media_type or "")
        try:
            return strict_json.parse(stream.read())
        except strict_json.InvalidJSON as error:
            raise ParseError(str(error)) from None


class PlainJSON(BaseRenderer):
    """Writes JSON."""

    media_type = "application/json"
    format = "json"
    charset = None  # JSON is UTF-8 (RFC 8259 §8.1)

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        return b"" if data is None else encode_json(data)


def encode_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
