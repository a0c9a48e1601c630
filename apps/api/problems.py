"""What the client API refuses, and the one table of how each refusal is said over HTTP (RFC 9457)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, TooManyFieldsSent
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from django.http.multipartparser import MultiPartParserError
from rest_framework import exceptions

from apps.accounts.credentials import BadCredentials
from apps.accounts.keyring import CannotDecrypt
from apps.accounts.quotas import TooMuch
from apps.engine.answering import NoAnswer
from apps.features.archive.files import DamagedArchive
from apps.features.queue.messages import QueuedNotFound
from apps.record.errors import (
    ContentTypeNotSupported,
    ContextNotFound,
    FileTooLarge,
    InvalidParams,
    MessageNotFound,
    Refusal,
    TaskFinished,
    TaskNotCancelable,
    TaskNotFound,
    UnsupportedOperation,
    UploadNotFound,
    WrongOffset,
)
from apps.record.models import Context

log = logging.getLogger("parley.api")

MEDIA_TYPE = "application/problem+json"
JSON = dict[str, Any]


class NotFound(Refusal):
    """There is nothing at this address, or it is not yours."""


class Conflict(Refusal):
    """This cannot be done as things are."""


class TooLarge(Refusal):
    """This is larger than is taken."""


class MediaTypeNotSupported(Refusal):
    """The body is of a type that this address does not take."""


class InvalidFields(InvalidParams):
    """Values that cannot be used, each with the path of its field."""

    def __init__(self, violations: list[tuple[str, str]]) -> None:
        path, sentence = violations[0]
        super().__init__(f"{path}: {sentence}" if path else sentence, path)
        self.violations = violations


@dataclass(frozen=True, slots=True)
class Row:
    """How an error is said; `detail` instead of the exception's own words, where those are not meant for callers."""

    status: HTTPStatus
    code: str
    detail: str = ""
    retry_after: int = 0  # seconds


AWAY = Row(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "The record is away for a moment. Try again.", retry_after=1)
TOO_LARGE = Row(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large")
NOT_FOUND = Row(HTTPStatus.NOT_FOUND, "not_found")
UNAUTHENTICATED = Row(HTTPStatus.UNAUTHORIZED, "unauthenticated")
INVALID = Row(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid")
CONFLICT = Row(HTTPStatus.CONFLICT, "conflict")
INTERNAL = Row(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "The server made a mistake, and its operators can see it.")

TABLE: dict[type[Exception], Row] = {
    NotFound: NOT_FOUND,
    ContextNotFound: Row(HTTPStatus.NOT_FOUND, "not_found", "There is no such session."),
    MessageNotFound: NOT_FOUND,
    QueuedNotFound: NOT_FOUND,
    TaskNotFound: NOT_FOUND,
    Context.DoesNotExist: Row(HTTPStatus.NOT_FOUND, "not_found", "There is no such session."),  # deleted just now
    DamagedArchive: Row(
        HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "The session cannot be read here. The operators can see why."
    ),
    Http404: Row(HTTPStatus.NOT_FOUND, "not_found", "There is nothing at this address."),
    Conflict: CONFLICT,
    TaskNotCancelable: CONFLICT,
    TaskFinished: Row(
        HTTPStatus.CONFLICT,
        "conflict",
        "The task has ended. Send the message without `task`, and name it in `references`.",
    ),
    UnsupportedOperation: CONFLICT,
    ContentTypeNotSupported: Row(HTTPStatus.UNPROCESSABLE_ENTITY, "media_type_not_taken"),
    InvalidParams: INVALID,
    Refusal: INVALID,
    NoAnswer: Row(HTTPStatus.SERVICE_UNAVAILABLE, "no_answer", retry_after=5),
    TooLarge: TOO_LARGE,
    FileTooLarge: TOO_LARGE,
    UploadNotFound: NOT_FOUND,
    WrongOffset: CONFLICT,
    MediaTypeNotSupported: Row(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "media_type_not_supported"),
    MultiPartParserError: Row(HTTPStatus.BAD_REQUEST, "unreadable"),
    TooMuch: Row(HTTPStatus.TOO_MANY_REQUESTS, "too_much"),
    BadCredentials: UNAUTHENTICATED,
    RequestDataTooBig: Row(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", "The request is too large."),
    TooManyFieldsSent: Row(HTTPStatus.BAD_REQUEST, "unreadable", "The query has too many parameters."),
    PermissionDenied: Row(HTTPStatus.FORBIDDEN, "forbidden"),
    CannotDecrypt: Row(
        HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "A key cannot be read here. The operators can see why."
    ),
    OperationalError: AWAY,
    InterfaceError: AWAY,
    exceptions.ParseError: Row(HTTPStatus.BAD_REQUEST, "unreadable"),
    exceptions.ValidationError: INVALID,
    exceptions.NotAuthenticated: Row(
        HTTPStatus.UNAUTHORIZED,
        "unauthenticated",
        'Send an API key as "Authorization: Bearer <key>", or sign in with a browser.',
    ),
    exceptions.AuthenticationFailed: UNAUTHENTICATED,
    exceptions.PermissionDenied: Row(HTTPStatus.FORBIDDEN, "forbidden"),
    exceptions.MethodNotAllowed: Row(
        HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", "This address takes other methods: see the Allow header."
    ),
    exceptions.NotAcceptable: Row(HTTPStatus.NOT_ACCEPTABLE, "not_acceptable", "This address answers in JSON."),
    exceptions.UnsupportedMediaType: Row(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "media_type_not_supported",
        "Send the body as JSON in UTF-8: Content-Type: application/json, without a Content-Encoding.",
    ),
}
"""The row of an exception is that of the nearest class of it that is here."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a caller is told it."""

    row: Row
    detail: str
    errors: list[JSON] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def document(self) -> JSON:
        told = {
            "type": f"urn:parley:problem:{self.row.code}",
            "title": self.row.status.phrase,
            "status": self.row.status.value,
            "detail": self.detail,
            "code": self.row.code,
        }
        return told | ({"errors": self.errors} if self.errors else {})

    @property
    def response(self) -> HttpResponse:
        content = json.dumps(self.document, ensure_ascii=False).encode()
        response = HttpResponse(content, MEDIA_TYPE, self.row.status, headers=self.headers)
        response["Cache-Control"] = "no-store"
        return response


def problem(error: Exception) -> Problem:
    """What to tell a caller of an error, which is logged where it is the server's own."""
    row = next((TABLE[kind] for kind in type(error).__mro__ if kind in TABLE), INTERNAL)
    if row is INTERNAL:
        log.error("a request failed", exc_info=error)
    elif row.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("a request was put off: %s", error)
    errors = [{"field": path, "message": sentence} for path, sentence in _violations(error)]
    return Problem(row, row.detail or _sentence(error, errors), errors, _headers(error, row))


def _sentence(error: Exception, errors: list[JSON]) -> str:
    if isinstance(error, exceptions.ValidationError):
        first = errors[0]
        return f"{first['field']}: {first['message']}" if first["field"] else str(first["message"])
    return str(error)


def _violations(error: Exception) -> list[tuple[str, str]]:
    if isinstance(error, exceptions.ValidationError):
        return list(_flat(error.detail)) or [("", "Is not valid.")]
    if isinstance(error, InvalidFields):
        return error.violations
    if isinstance(error, InvalidParams) and error.field:
        return [(error.field, str(error))]
    return []


def _flat(detail: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The sentences within the detail of a ValidationError, each with the path of its field."""
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
    if isinstance(error, TooMuch):
        return {"Retry-After": str(error.retry_after)}
    if isinstance(error, WrongOffset):
        return {"Upload-Offset": str(error.offset)}
    if row.status is HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": 'Bearer realm="parley"'}
    return {"Retry-After": str(row.retry_after)} if row.retry_after else {}
