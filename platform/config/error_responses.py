"""Errors outside views, as JSON and as pages: a body that is too large, an unknown path, an unexpected exception."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.middleware.csp import get_nonce
from django.shortcuts import render
from django.template.loader import render_to_string

A2A_DOMAIN = "a2a-protocol.org"
CLIENT_API = "/api/v1"
JSON_RPC_PATH = re.compile(r"/a2a(/(?!(tasks|extendedAgentCard)/?\Z)[^/:]+)?/?")
INTERNAL_ERROR = -32603


@dataclass(frozen=True)
class ErrorResponse:
    """An error in the form of the path's protocol: A2A 1.0 (JSON-RPC §9.5, HTTP+JSON §11.6) or RFC 9457."""

    status: HTTPStatus
    name: str  # of the google.rpc code
    message: str
    reason: str = ""  # a closer name
    code: str = "unreadable"

    def media_type(self, path: str) -> str:
        return "application/problem+json" if _is_client_api(path) else "application/json"

    def body(self, path: str) -> bytes:
        """As JSON: an RFC 9457 problem, a JSON-RPC error, or an HTTP+JSON error."""
        if _is_client_api(path):
            problem = {
                "type": f"urn:parley:problem:{self.code}",
                "title": self.status.phrase,
                "status": self.status.value,
                "detail": self.message,
                "code": self.code,
            }
            return json.dumps(problem).encode()
        details = [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": self.reason or self.name,
                "domain": A2A_DOMAIN,
                "metadata": {},
            }
        ]
        error: dict[str, Any] = {"code": self.status.value, "message": self.message}
        if JSON_RPC_PATH.fullmatch(path):
            if self.status == HTTPStatus.INTERNAL_SERVER_ERROR:
                error["code"] = INTERNAL_ERROR
            document: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": {**error, "data": details}}
        else:
            document = {"error": {**error, "status": self.name, "details": details}}
        return json.dumps(document).encode()


def _is_client_api(path: str) -> bool:
    return path == CLIENT_API or path.startswith(f"{CLIENT_API}/")


NOT_FOUND = ErrorResponse(HTTPStatus.NOT_FOUND, "NOT_FOUND", "There is nothing at this address.", code="not_found")
WRONG_HOST = ErrorResponse(
    HTTPStatus.BAD_REQUEST, "INVALID_ARGUMENT", "This host name is not allowed. Add it to ALLOWED_HOSTS."
)
MALFORMED = ErrorResponse(HTTPStatus.BAD_REQUEST, "INVALID_ARGUMENT", "The request line or a header is malformed.")
URI_TOO_LONG = ErrorResponse(
    HTTPStatus.REQUEST_URI_TOO_LONG, "INVALID_ARGUMENT", "The address is too long. It may have at most 16 kB."
)
TOO_SLOW = ErrorResponse(
    HTTPStatus.REQUEST_TIMEOUT, "DEADLINE_EXCEEDED", "The body came too slowly. Send it again without a pause."
)
HEADER_TOO_LONG = ErrorResponse(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "INVALID_ARGUMENT",
    "A header is too long. It may have at most 16 kB.",
)
STOPPING = ErrorResponse(
    HTTPStatus.SERVICE_UNAVAILABLE, "UNAVAILABLE", "The server is stopping. Send the request again.", code="unavailable"
)
INTERNAL = ErrorResponse(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "INTERNAL",
    "Something went wrong on the server. The error was logged.",
    code="internal",
)


def too_large(limit: int) -> ErrorResponse:
    """For a body of more than `limit` bytes."""
    return ErrorResponse(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "INVALID_ARGUMENT",
        f"A request may have at most {limit / 1024 / 1024:g} MB. Send large files one by one, or as links.",
        "REQUEST_TOO_LARGE",
        "too_large",
    )


def bad_request_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler400`."""
    return _page(request, HTTPStatus.BAD_REQUEST)


def forbidden_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler403`. Its own reads the form, which may be what cannot be read."""
    return render(request, "403.html", {"exception": str(exception)}, status=HTTPStatus.FORBIDDEN)


def not_found_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler404`, as `forbidden_page`."""
    return render(request, "404.html", status=HTTPStatus.NOT_FOUND)


def server_error_page(request: HttpRequest) -> HttpResponse:
    """Django's `handler500`, which is called while the exception is handled. Without its database, a page can be tried
    again.
    """
    if not isinstance(sys.exception(), OperationalError | InterfaceError):
        return _page(request, HTTPStatus.INTERNAL_SERVER_ERROR)
    unavailable = _page(request, HTTPStatus.SERVICE_UNAVAILABLE)
    unavailable["Retry-After"] = "1"
    return unavailable


def _page(request: HttpRequest, status: HTTPStatus) -> HttpResponse:
    """With the nonce alone: context processors may need the database, which may be what fails."""
    return HttpResponse(render_to_string(f"{status.value}.html", {"csp_nonce": get_nonce(request)}), status=status)
