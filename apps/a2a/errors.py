"""What the A2A server refuses, and the one table of how each refusal is said in the protocol (A2A 1.0 §5.4, §9.5)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.db import InterfaceError, OperationalError

from apps.accounts.credentials import BadCredentials
from apps.accounts.keyring import CannotDecrypt
from apps.accounts.quotas import TooMuch
from apps.engine.answering import NoAnswer
from apps.record.errors import (
    ContentTypeNotSupported,
    ContextNotFound,
    FileTooLarge,
    InvalidParams,
    MessageNotFound,
    Refusal,
    TaskNotCancelable,
    TaskNotFound,
    UnsupportedOperation,
    UploadNotFound,
    WrongOffset,
)

log = logging.getLogger("parley.a2a")

JSON = dict[str, Any]
DOMAIN = "a2a-protocol.org"


class ParseError(Refusal):
    """The body is not JSON that can be read."""


class InvalidRequest(Refusal):
    """The body is no JSON-RPC 2.0 request object."""


class MethodNotFound(Refusal):
    """There is no such method."""


class InvalidFields(InvalidParams):
    """Values of a request that cannot be used, each with the path of its field."""

    def __init__(self, violations: Sequence[tuple[str, str]]) -> None:
        field, description = violations[0]
        more = f" ({len(violations) - 1} more)" if len(violations) > 1 else ""
        super().__init__(f"{field}: {description}{more}", field)
        self.violations = violations


class PushNotificationNotSupported(Refusal):
    """This agent calls no webhooks. Use a streaming method, or ask with GetTask."""


class ExtendedAgentCardNotConfigured(Refusal):
    """This agent's card speaks of an extended one, which nobody has written yet. Use the public card."""


class ExtensionSupportRequired(Refusal):
    """The agent requires an extension. Name it in the A2A-Extensions header."""


class VersionNotSupported(Refusal):
    """This version of A2A is not served here. Send the header A2A-Version: 1.0."""


class NotJson(ContentTypeNotSupported):
    """Send the request as JSON in UTF-8: Content-Type: application/json, without a Content-Encoding."""


class Unauthenticated(Refusal):
    """This agent answers to known callers only. Send an API key as "Authorization: Bearer <key>"."""


class Forbidden(Refusal):
    """This API key may not do this. Use one whose scopes allow it."""


class AgentNotFound(Refusal):
    """There is no such agent."""


class WrongVerb(Refusal):
    """This address takes other HTTP methods: the Allow header names them."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(f"This address takes {' and '.join(allowed)}.")
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Row:
    """How an error is said: by code in JSON-RPC, by status and gRPC name over HTTP, by reason in its details.

    JSON-RPC errors travel with HTTP 200 unless the row keeps its own status.
    """

    code: int
    http: int
    status: str
    reason: str = ""
    keeps_http: bool = False
    message: str = ""  # said instead of the exception's own words, which are not meant for callers


def _own(http: int, status: str, reason: str, message: str = "") -> Row:
    """An error of the house: HTTP's status is its code, for A2A's range is left to A2A."""
    return Row(http, http, status, reason, keeps_http=True, message=message)


TABLE: dict[type[Exception], Row] = {
    TaskNotFound: Row(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    TaskNotCancelable: Row(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    PushNotificationNotSupported: Row(-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    UnsupportedOperation: Row(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    ContentTypeNotSupported: Row(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    NotJson: Row(-32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", keeps_http=True),
    ExtendedAgentCardNotConfigured: Row(-32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    ExtensionSupportRequired: Row(-32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"),
    VersionNotSupported: Row(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    ParseError: Row(-32700, 400, "INVALID_ARGUMENT"),
    InvalidRequest: Row(-32600, 400, "INVALID_ARGUMENT"),
    MethodNotFound: Row(-32601, 404, "NOT_FOUND"),
    InvalidParams: Row(-32602, 400, "INVALID_ARGUMENT"),
    ContextNotFound: Row(-32602, 400, "INVALID_ARGUMENT"),
    MessageNotFound: Row(-32602, 400, "INVALID_ARGUMENT"),
    UploadNotFound: Row(-32602, 400, "INVALID_ARGUMENT"),
    WrongOffset: Row(-32602, 400, "INVALID_ARGUMENT"),
    NoAnswer: Row(-32603, 500, "INTERNAL"),
    BadCredentials: _own(401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
    Forbidden: _own(403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
    Unauthenticated: _own(401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
    AgentNotFound: _own(404, "NOT_FOUND", "AGENT_NOT_FOUND"),
    WrongVerb: _own(405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED"),
    RequestDataTooBig: _own(413, "INVALID_ARGUMENT", "REQUEST_TOO_LARGE", "The request is too large."),
    FileTooLarge: _own(413, "INVALID_ARGUMENT", "REQUEST_TOO_LARGE"),
    TooManyFieldsSent: Row(-32602, 400, "INVALID_ARGUMENT", message="The query has too many parameters."),
    TooMuch: _own(429, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"),
    CannotDecrypt: _own(503, "UNAVAILABLE", "UNAVAILABLE", "A key cannot be read here. The operators can see why."),
    OperationalError: _own(503, "UNAVAILABLE", "UNAVAILABLE", "The record is away for a moment. Try again."),
    InterfaceError: _own(503, "UNAVAILABLE", "UNAVAILABLE", "The record is away for a moment. Try again."),
}
INTERNAL = Row(-32603, 500, "INTERNAL", message="The server made a mistake, and its operators can see it.")


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a caller is told it, in whatever binding."""

    row: Row
    message: str
    details: list[JSON] = field(default_factory=list)
    http_headers: dict[str, str] = field(default_factory=dict)  # what HTTP wants to be said with the status

    @property
    def is_unexpected(self) -> bool:
        return self.row is INTERNAL

    @property
    def status(self) -> JSON:
        """The error as HTTP+JSON says it, a `google.rpc.Status` in its JSON form (A2A 1.0 §11.6)."""
        return {
            "error": {
                "code": self.row.http,
                "status": self.row.status,
                "message": self.message,
                "details": self.details,
            }
        }


def problem(error: Exception) -> Problem:
    """What to tell a caller of an error; nothing of what is inside where the error was not foreseen."""
    row = next((TABLE[kind] for kind in type(error).__mro__ if kind in TABLE), INTERNAL)
    return Problem(row, row.message or str(error), _details(error, row), _http_headers(error, row))


def log_problem(error: Exception, told: Problem) -> None:
    """Let operators know of an error that is the server's own."""
    if told.is_unexpected:
        log.error("a request failed", exc_info=error)
    elif told.row.http == 503:
        log.warning("a request was put off: %s", error)


def _http_headers(error: Exception, row: Row) -> dict[str, str]:
    if isinstance(error, WrongVerb):
        return {"Allow": ", ".join(error.allowed)}
    if isinstance(error, TooMuch):
        return {"Retry-After": str(error.retry_after)}
    match row.http:
        case 401:
            return {"WWW-Authenticate": 'Bearer realm="parley"'}
        case 503:
            return {"Retry-After": "1"}
        case _:
            return {}


def _details(error: Exception, row: Row) -> list[JSON]:
    details: list[JSON] = []
    if row.reason:
        details.append(
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": row.reason,
                "domain": DOMAIN,
                "metadata": {},
            }
        )
    if isinstance(error, InvalidParams) and (violations := _violations(error)):
        listed = [{"field": field, "description": description} for field, description in violations]
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": listed})
    return details


def _violations(error: InvalidParams) -> Sequence[tuple[str, str]]:
    if isinstance(error, InvalidFields):
        return error.violations
    return [(error.field, str(error))] if error.field else []
