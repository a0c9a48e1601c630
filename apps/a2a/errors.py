"""The A2A server's errors, and their table (A2A 1.0 §5.4, §9.5)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.agents.models import AgentNotFound
from apps.engine.send import NoAnswer
from apps.record.errors import (
    ContentTypeNotSupported,
    Kind,
    Refusal,
    TaskNotCancelable,
    TaskNotFound,
    UnsupportedOperation,
    exceeded_by,
    headers_of,
    kind_of,
    log_error,
    sentence_of,
    violations_of,
)

log = logging.getLogger("parley.a2a")

JSON = dict[str, Any]
DOMAIN = "a2a-protocol.org"


class ParseError(Refusal):
    """The body is not valid JSON."""


class InvalidRequest(Refusal):
    """The body is not a JSON-RPC 2.0 request object."""


class MethodNotFound(Refusal):
    """There is no such method."""


class PushNotificationNotSupported(Refusal):
    """This agent does not support push notifications. Poll with GetTask."""


class ExtendedAgentCardNotConfigured(Refusal):
    """This agent has no extended card yet. Use the public card."""


class ExtensionSupportRequired(Refusal):
    """The agent requires an extension. Name it in the A2A-Extensions header."""


class VersionNotSupported(Refusal):
    """This version of A2A is not supported. Send the header A2A-Version: 1.0."""


class TaskGenerationMismatch(UnsupportedOperation):
    """The task has changed since the client read it (A2A 1.1)."""

    def __init__(self, task: str, expected: int, current: int) -> None:
        super().__init__(
            f"Task {task} has changed: its generation is {current}, not {expected}. Read it again with GetTask."
        )
        self.metadata = {"taskId": task, "expectedGeneration": str(expected), "currentGeneration": str(current)}


class UnsupportedMediaType(ContentTypeNotSupported):
    """Send the request as JSON in UTF-8: Content-Type: application/json, without a Content-Encoding."""


class Unauthenticated(Refusal):
    """This agent requires authentication. Send an API key as "Authorization: Bearer <key>"."""


class MethodNotAllowed(Refusal):
    """This address does not support the HTTP method. See the Allow header."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(f"This address supports {' and '.join(allowed)}.")
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Row:
    """An error's JSON-RPC code, HTTP and gRPC status, and reason.

    JSON-RPC sends it with HTTP 200 unless `keeps_status`.
    """

    code: int
    http: int
    status: str
    reason: str = ""
    keeps_status: bool = False


def _platform_row(http: int, status: str, reason: str) -> Row:
    """A platform error. Its code is the HTTP status, outside A2A's range."""
    return Row(http, http, status, reason, keeps_status=True)


INTERNAL = Row(-32603, 500, "INTERNAL")
INVALID_PARAMS = Row(-32602, 400, "INVALID_ARGUMENT")
UNAUTHENTICATED = _platform_row(401, "UNAUTHENTICATED", "UNAUTHENTICATED")

TABLE: dict[type[Exception] | Kind, Row] = {
    TaskNotFound: Row(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    TaskNotCancelable: Row(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    PushNotificationNotSupported: Row(-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    UnsupportedOperation: Row(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    ContentTypeNotSupported: Row(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    UnsupportedMediaType: Row(-32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", keeps_status=True),
    ExtendedAgentCardNotConfigured: Row(-32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    ExtensionSupportRequired: Row(-32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"),
    VersionNotSupported: Row(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    TaskGenerationMismatch: Row(-32010, 409, "ABORTED", "TASK_GENERATION_MISMATCH"),
    ParseError: Row(-32700, 400, "INVALID_ARGUMENT"),
    InvalidRequest: Row(-32600, 400, "INVALID_ARGUMENT"),
    MethodNotFound: Row(-32601, 404, "NOT_FOUND"),
    NoAnswer: INTERNAL,
    Kind.FORBIDDEN: _platform_row(403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
    Unauthenticated: UNAUTHENTICATED,
    AgentNotFound: _platform_row(404, "NOT_FOUND", "AGENT_NOT_FOUND"),
    MethodNotAllowed: _platform_row(405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED"),
    Kind.INVALID: INVALID_PARAMS,
    Kind.NOT_FOUND: INVALID_PARAMS,  # what a parameter names
    Kind.CONFLICT: INVALID_PARAMS,
    Kind.TOO_LARGE: _platform_row(413, "INVALID_ARGUMENT", "REQUEST_TOO_LARGE"),
    Kind.UNAUTHENTICATED: UNAUTHENTICATED,
    Kind.TOO_MANY: _platform_row(429, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"),
    Kind.UNAVAILABLE: _platform_row(503, "UNAVAILABLE", "UNAVAILABLE"),
    Kind.INTERNAL: INTERNAL,
}
"""By the nearest base class of an error, or by its kind."""


def row_of(error: type[Exception]) -> Row:
    return next((TABLE[base] for base in error.__mro__ if base in TABLE), TABLE[kind_of(error)])


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a caller sees it."""

    row: Row
    message: str
    details: list[JSON] = field(default_factory=list)
    http_headers: dict[str, str] = field(default_factory=dict)

    @property
    def status(self) -> JSON:
        """The `google.rpc.Status` of HTTP+JSON (A2A 1.0 §11.6)."""
        return {
            "error": {
                "code": self.row.http,
                "status": self.row.status,
                "message": self.message,
                "details": self.details,
            }
        }


def problem(error: Exception) -> Problem:
    """What the caller sees of an error. Server errors are logged."""
    row = row_of(type(error))
    log_error(log, error, row.http)
    headers = headers_of(error, row.http)
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(error.allowed)
    return Problem(row, sentence_of(error), _details(error, row), headers)


def _details(error: Exception, row: Row) -> list[JSON]:
    details: list[JSON] = []
    exceeded = exceeded_by(error)
    if row.reason:
        details.append(
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": row.reason,
                "domain": DOMAIN,
                "metadata": _metadata(error),
            }
        )
    if exceeded and exceeded.retry_after:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{exceeded.retry_after}s"})
    if violations := violations_of(error):
        listed = [{"field": path, "description": sentence} for path, sentence in violations]
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": listed})
    return details


def _metadata(error: Exception) -> dict[str, str]:
    """What an error is about, by name."""
    if isinstance(error, TaskGenerationMismatch):
        return error.metadata
    exceeded = exceeded_by(error)
    return {name: str(value) for name, value in exceeded.data.items()} if exceeded else {}
