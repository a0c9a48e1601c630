"""An error as the client API tells it: a problem (RFC 9457)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from rest_framework import exceptions

from apps.accounts.errors import Kind, Refusal
from apps.accounts.errors import NotFound as NotFound
from apps.record.error_table import (
    TABLE,
    Codes,
    codes_of,
    exceeded_by,
    headers_of,
    log_error,
    sentence_of,
    violations_of,
)
from apps.record.errors import KeyUsed, TaskFinished

log = logging.getLogger("parley.api")

MEDIA_TYPE = "application/problem+json"
IDEMPOTENCY_HEADER = "Idempotency-Key"
JSON = dict[str, Any]
OF_STATUS = {TABLE[kind].http: TABLE[kind] for kind in Kind}
SENTENCES: dict[type[Exception], str] = {
    TaskFinished: "The task has ended. Send the message without `task`, and name it in `references`.",
    exceptions.NotAuthenticated: 'Send an API key as "Authorization: Bearer <key>", or sign in with a browser.',
    exceptions.MethodNotAllowed: "This address does not support the method. See the Allow header.",
    exceptions.NotAcceptable: "This address answers in JSON.",
    exceptions.UnsupportedMediaType: "Send the body as JSON in UTF-8: Content-Type: application/json, without a"
    " Content-Encoding.",
}
"""Where the client API says more than the error."""


class Conflict(Refusal):
    """This cannot be done as things are."""

    kind = Kind.CONFLICT


@dataclass(frozen=True, slots=True)
class Problem:
    codes: Codes
    detail: str
    errors: list[JSON] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    limit: JSON = field(default_factory=dict)

    @property
    def document(self) -> JSON:
        told = {
            "type": f"urn:parley:problem:{self.codes.problem}",
            "title": HTTPStatus(self.codes.http).phrase,
            "status": self.codes.http,
            "detail": self.detail,
            "code": self.codes.problem,
        }
        optional = {"errors": self.errors, "limit": self.limit}
        return told | {name: value for name, value in optional.items() if value}

    @property
    def response(self) -> HttpResponse:
        content = json.dumps(self.document, ensure_ascii=False).encode()
        response = HttpResponse(content, MEDIA_TYPE, self.codes.http, headers=self.headers)
        response["Cache-Control"] = "no-store"
        return response


def problem(error: Exception) -> Problem:
    """What the caller sees of an error. Server errors are logged."""
    codes = _codes(error)
    log_error(log, error, codes.http)
    if isinstance(error, KeyUsed):
        error = error.named(IDEMPOTENCY_HEADER)
    errors = [{"field": path, "message": sentence} for path, sentence in _violations(error)]
    if isinstance(error, exceptions.ValidationError):
        detail = ": ".join(filter(None, errors[0].values()))
    else:
        detail = SENTENCES.get(type(error)) or (
            str(error) if isinstance(error, exceptions.APIException) else sentence_of(error)
        )
    exceeded = exceeded_by(error)
    return Problem(codes, detail, errors, headers_of(error, codes.http), exceeded.data if exceeded else {})


def _codes(error: Exception) -> Codes:
    if isinstance(error, exceptions.ValidationError):
        return TABLE[Kind.INVALID]
    return OF_STATUS[error.status_code] if isinstance(error, exceptions.APIException) else codes_of(type(error))


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
