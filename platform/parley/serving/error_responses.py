"""Errors outside views, as JSON and as pages: a body that is too large, an unknown path, an unexpected exception."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from http import HTTPStatus

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csp import get_nonce
from django.shortcuts import render
from django.template.loader import render_to_string

from apps.a2a.bindings import error_object
from apps.a2a.errors import Problem, details_of
from apps.accounts.errors import Kind
from apps.api.framework import problems
from apps.record.error_table import TABLE, Codes, platform_codes

CLIENT_API = "/api/v1"
JSON_RPC_PATH = re.compile(r"/a2a(/(?!(tasks|extendedAgentCard)/?\Z)[^/:]+)?/?")


@dataclass(frozen=True)
class ErrorResponse:
    """An error that no view tells."""

    codes: Codes
    message: str

    def response(self, path: str) -> HttpResponse:
        """In the form of the path's protocol: a problem of the client API, otherwise A2A 1.0."""
        if path == CLIENT_API or path.startswith(f"{CLIENT_API}/"):
            return problems.Problem(self.codes, self.message).response
        refused = Problem(self.codes, self.message, details_of(self.codes))
        document = error_object(None, refused) if JSON_RPC_PATH.fullmatch(path) else refused.status
        return JsonResponse(document, status=self.codes.a2a)


BAD_REQUEST = platform_codes(400, "unreadable", "INVALID_ARGUMENT")
NOT_FOUND = ErrorResponse(platform_codes(404, "not_found", "NOT_FOUND"), "There is nothing at this address.")
WRONG_HOST = ErrorResponse(BAD_REQUEST, "This host name is not allowed. Add it to ALLOWED_HOSTS.")
MALFORMED = ErrorResponse(BAD_REQUEST, "The request line or a header is malformed.")
URI_TOO_LONG = ErrorResponse(
    platform_codes(414, "unreadable", "INVALID_ARGUMENT"), "The address is too long. It may have at most 16 kB."
)
TOO_SLOW = ErrorResponse(
    platform_codes(408, "unreadable", "DEADLINE_EXCEEDED"), "The body came too slowly. Send it again without a pause."
)
HEADER_TOO_LONG = ErrorResponse(
    platform_codes(431, "unreadable", "INVALID_ARGUMENT"), "A header is too long. It may have at most 16 kB."
)
STOPPING = ErrorResponse(TABLE[Kind.UNAVAILABLE], "The server is stopping. Send the request again.")
INTERNAL = ErrorResponse(TABLE[Kind.INTERNAL], "Something went wrong on the server. The error was logged.")


def too_large(limit: int) -> ErrorResponse:
    """For a body of more than `limit` bytes."""
    sentence = f"A request may have at most {limit / 1024 / 1024:g} MB. Send large files one by one, or as links."
    return ErrorResponse(TABLE[Kind.TOO_LARGE], sentence)


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
