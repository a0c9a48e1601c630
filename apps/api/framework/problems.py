"""The client API's errors, and their table of HTTP problems (RFC 9457)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, TooManyFieldsSent
from django.http import Http404, HttpResponse
from django.http.multipartparser import MultiPartParserError
from rest_framework import exceptions

from apps.engine.send import NoAnswer
from apps.features.queue.messages import QueuedNotFound
from apps.record.errors import (
    ContentTypeNotSupported,
    ContextNotFound,
    KeyUsed,
    Kind,
    Refusal,
    TaskFinished,
    WrongOffset,
    exceeded_by,
    headers_of,
    kind_of,
    log_error,
    sentence_of,
    violations_of,
)
from apps.record.models import Context

log = logging.getLogger("parley.api")

MEDIA_TYPE = "application/problem+json"
IDEMPOTENCY_HEADER = "Idempotency-Key"
JSON = dict[str, Any]


class NotFound(Refusal):
    """There is nothing at this address, or it is not yours."""

    kind = Kind.NOT_FOUND


class Conflict(Refusal):
    """This cannot be done as things are."""

    kind = Kind.CONFLICT


class MediaTypeNotSupported(Refusal):
    """The body is of a type that this address does not take."""


@dataclass(frozen=True, slots=True)
class Row:
    """How an error is reported; `detail` replaces internal messages."""

    status: HTTPStatus
    code: str
    detail: str = ""
    retry_after: int = 0  # seconds


NO_SESSION = Row(HTTPStatus.NOT_FOUND, "not_found", "There is no such session.")
UNREADABLE = Row(HTTPStatus.BAD_REQUEST, "unreadable")
FORBIDDEN = Row(HTTPStatus.FORBIDDEN, "forbidden")

TABLE: dict[type[Exception] | Kind, Row] = {
    Kind.INVALID: Row(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid"),
    Kind.NOT_FOUND: Row(HTTPStatus.NOT_FOUND, "not_found"),
    Kind.CONFLICT: Row(HTTPStatus.CONFLICT, "conflict"),
    Kind.TOO_LARGE: Row(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large"),
    Kind.UNAUTHENTICATED: Row(HTTPStatus.UNAUTHORIZED, "unauthenticated"),
    Kind.FORBIDDEN: FORBIDDEN,
    Kind.TOO_MANY: Row(HTTPStatus.TOO_MANY_REQUESTS, "too_much"),
    Kind.UNAVAILABLE: Row(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
    Kind.INTERNAL: Row(HTTPStatus.INTERNAL_SERVER_ERROR, "internal"),
    ContextNotFound: NO_SESSION,
    Context.DoesNotExist: NO_SESSION,
    QueuedNotFound: Row(HTTPStatus.NOT_FOUND, "not_found"),
    TaskFinished: Row(
        HTTPStatus.CONFLICT,
        "conflict",
        "The task has ended. Send the message without `task`, and name it in `references`.",
    ),
    ContentTypeNotSupported: Row(HTTPStatus.UNPROCESSABLE_ENTITY, "media_type_not_taken"),
    NoAnswer: Row(HTTPStatus.SERVICE_UNAVAILABLE, "no_answer", retry_after=5),
    MediaTypeNotSupported: Row(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "media_type_not_supported"),
    Http404: Row(HTTPStatus.NOT_FOUND, "not_found", "There is nothing at this address."),
    PermissionDenied: FORBIDDEN,
    MultiPartParserError: UNREADABLE,
    TooManyFieldsSent: Row(HTTPStatus.BAD_REQUEST, "unreadable", "The query has too many parameters."),
    exceptions.ParseError: UNREADABLE,
    exceptions.ValidationError: Row(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid"),
    exceptions.NotAuthenticated: Row(
        HTTPStatus.UNAUTHORIZED,
        "unauthenticated",
        'Send an API key as "Authorization: Bearer <key>", or sign in with a browser.',
    ),
    exceptions.AuthenticationFailed: Row(HTTPStatus.UNAUTHORIZED, "unauthenticated"),
    exceptions.PermissionDenied: FORBIDDEN,
    exceptions.MethodNotAllowed: Row(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "This address does not support the method. See the Allow header.",
    ),
    exceptions.NotAcceptable: Row(HTTPStatus.NOT_ACCEPTABLE, "not_acceptable", "This address answers in JSON."),
    exceptions.UnsupportedMediaType: Row(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "media_type_not_supported",
        "Send the body as JSON in UTF-8: Content-Type: application/json, without a Content-Encoding.",
    ),
}
"""By the nearest class of an error that is here, or by its kind."""


@dataclass(frozen=True, slots=True)
class Problem:
    row: Row
    detail: str
    errors: list[JSON] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    limit: JSON = field(default_factory=dict)

    @property
    def document(self) -> JSON:
        told = {
            "type": f"urn:parley:problem:{self.row.code}",
            "title": self.row.status.phrase,
            "status": self.row.status.value,
            "detail": self.detail,
            "code": self.row.code,
        }
        optional = {"errors": self.errors, "limit": self.limit}
        return told | {name: value for name, value in optional.items() if value}

    @property
    def response(self) -> HttpResponse:
        content = json.dumps(self.document, ensure_ascii=False).encode()
        response = HttpResponse(content, MEDIA_TYPE, self.row.status, headers=self.headers)
        response["Cache-Control"] = "no-store"
        return response


def problem(error: Exception) -> Problem:
    """What the caller sees of an error. Server errors are logged."""
    own = next((TABLE[base] for base in type(error).__mro__ if base in TABLE), None)
    row = own or TABLE[kind_of(type(error))]
    log_error(log, error, row.status)
    if isinstance(error, KeyUsed):
        error = error.named(IDEMPOTENCY_HEADER)
    errors = [{"field": path, "message": sentence} for path, sentence in _violations(error)]
    if isinstance(error, exceptions.ValidationError):
        detail = ": ".join(filter(None, errors[0].values()))
    else:
        detail = row.detail or (str(error) if own else sentence_of(error))
    exceeded = exceeded_by(error)
    return Problem(row, detail, errors, _headers(error, row), exceeded.data if exceeded else {})


def _violations(error: Exception) -> Sequence[tuple[str, str]]:
    if isinstance(error, exceptions.ValidationError):
        return list(_flat(error.detail)) or [("", "Is not valid.")]
    return violations_of(error)


def _flat(detail: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Messages in a ValidationError's detail, with field paths."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            step = f"[{name}]" if isinstance(name, int) else str(name)
            yield from _flat(inner, f"{path}.{step}" if path and step and step[0] != "[" else f"{path}{step}")
    elif isinstance(detail, list):
        for position, inner in enumerate(detail):
            yield from _flat(inner, f"{path}[{position}]" if isinstance(inner, dict | list) and inner else path)
    else:
        yield path, str(detail)


def _headers(error: Exception, row: Row) -> dict[str, str]:
    if isinstance(error, WrongOffset):
        return {"Upload-Offset": str(error.offset)}
    if row.retry_after:
        return {"Retry-After": str(row.retry_after)}
    return headers_of(error, row.status)
