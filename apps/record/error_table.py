"""The codes of every error in every protocol, with its sentence for people and its HTTP headers.

Each edge puts these into the shape of its protocol: `a2a.errors`, `api.framework.problems`, `doors`, pages.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.exceptions import (
    ObjectDoesNotExist,
    ObjectNotUpdated,
    PermissionDenied,
    RequestAborted,
    RequestDataTooBig,
    TooManyFieldsSent,
)
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from django.http.multipartparser import MultiPartParserError

from apps.accounts.errors import Kind, Refusal
from apps.accounts.requests.authentication import BadCredentials, NotSigned
from apps.accounts.requests.bodies import BodyTooLarge
from apps.accounts.requests.challenges import challenge
from apps.accounts.requests.quotas import QuotaExceeded
from apps.accounts.secrets.encryption import CannotDecrypt
from apps.agents.models import AgentNotFound
from apps.limits.current import Exceeded
from apps.record import errors
from apps.record.models import Context


@dataclass(frozen=True, slots=True)
class Codes:
    """How an error is told.

    Attributes:
        http: status of the client API and of pages.
        problem: code of the client API's problem.
        rpc: code of JSON-RPC; the HTTP status for errors of the platform, outside A2A's range.
        a2a: HTTP status of A2A over HTTP+JSON, and of `doors`.
        grpc: name of the gRPC status.
        reason: A2A's name.
        keeps_status: does JSON-RPC have the HTTP status, too? Otherwise it is 200.
    """

    http: int
    problem: str
    rpc: int
    a2a: int
    grpc: str
    reason: str = ""
    keeps_status: bool = False


def platform_codes(status: int, problem: str, grpc: str, reason: str = "") -> Codes:
    """Of an error that A2A does not name."""
    return Codes(status, problem, status, status, grpc, reason or grpc, keeps_status=True)


INVALID, FAILED, NOT_FOUND = "INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND"

TABLE: dict[type[Exception] | Kind, Codes] = {
    Kind.UNREADABLE: Codes(400, "unreadable", -32700, 400, INVALID),
    Kind.INVALID: Codes(422, "invalid", -32602, 400, INVALID),
    Kind.NOT_FOUND: Codes(404, "not_found", -32602, 400, INVALID),  # what a parameter names
    Kind.CONFLICT: Codes(409, "conflict", -32602, 400, INVALID),
    Kind.TOO_LARGE: platform_codes(413, "too_large", INVALID, "REQUEST_TOO_LARGE"),
    Kind.UNAUTHENTICATED: platform_codes(401, "unauthenticated", "UNAUTHENTICATED"),
    Kind.FORBIDDEN: platform_codes(403, "forbidden", "PERMISSION_DENIED"),
    Kind.METHOD_NOT_ALLOWED: platform_codes(405, "method_not_allowed", "UNIMPLEMENTED", "METHOD_NOT_ALLOWED"),
    Kind.NOT_ACCEPTABLE: platform_codes(406, "not_acceptable", INVALID, "NOT_ACCEPTABLE"),
    Kind.MEDIA_TYPE_NOT_SUPPORTED: Codes(
        415, "media_type_not_supported", -32005, 415, INVALID, "CONTENT_TYPE_NOT_SUPPORTED", keeps_status=True
    ),
    Kind.TOO_MANY: platform_codes(429, "too_much", "RESOURCE_EXHAUSTED"),
    Kind.UNAVAILABLE: platform_codes(503, "unavailable", "UNAVAILABLE"),
    Kind.INTERNAL: Codes(500, "internal", -32603, 500, "INTERNAL"),
    # Those that A2A names (A2A 1.0 §5.4, §9.5)
    errors.TaskNotFound: Codes(404, "not_found", -32001, 404, NOT_FOUND, "TASK_NOT_FOUND"),
    errors.TaskNotCancelable: Codes(409, "conflict", -32002, 400, FAILED, "TASK_NOT_CANCELABLE"),
    errors.PushNotificationNotSupported: Codes(409, "conflict", -32003, 400, FAILED, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    errors.UnsupportedOperation: Codes(409, "conflict", -32004, 400, FAILED, "UNSUPPORTED_OPERATION"),
    errors.ContentTypeNotSupported: Codes(
        422, "media_type_not_taken", -32005, 400, INVALID, "CONTENT_TYPE_NOT_SUPPORTED"
    ),
    errors.ExtendedAgentCardNotConfigured: Codes(
        409, "conflict", -32007, 400, FAILED, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    ),
    errors.ExtensionSupportRequired: Codes(409, "conflict", -32008, 400, FAILED, "EXTENSION_SUPPORT_REQUIRED"),
    errors.VersionNotSupported: Codes(409, "conflict", -32009, 400, FAILED, "VERSION_NOT_SUPPORTED"),
    errors.TaskGenerationMismatch: Codes(409, "conflict", -32010, 409, "ABORTED", "TASK_GENERATION_MISMATCH"),
    errors.InvalidRequest: Codes(400, "unreadable", -32600, 400, INVALID),
    errors.MethodNotFound: Codes(404, "not_found", -32601, 404, NOT_FOUND),
    errors.NoAnswer: Codes(503, "no_answer", -32603, 500, "INTERNAL"),
    AgentNotFound: platform_codes(404, "not_found", NOT_FOUND, "AGENT_NOT_FOUND"),
}
"""By the nearest base class of an error, or by its kind."""

OTHER_ERRORS: dict[type[Exception], tuple[Kind, str]] = {
    BadCredentials: (Kind.UNAUTHENTICATED, ""),
    QuotaExceeded: (Kind.TOO_MANY, ""),
    BodyTooLarge: (Kind.TOO_LARGE, ""),
    RequestDataTooBig: (Kind.TOO_LARGE, "The request is too large."),
    RequestAborted: (Kind.INVALID, "The request broke off."),
    TooManyFieldsSent: (Kind.UNREADABLE, "The query has too many parameters."),
    CannotDecrypt: (Kind.UNAVAILABLE, "A secret cannot be decrypted. Ask an operator to check the server's log."),
    errors.SessionUnreadable: (
        Kind.UNAVAILABLE,
        "The session cannot be read. Ask an operator to check the server's log.",
    ),
    Context.DoesNotExist: (Kind.NOT_FOUND, "There is no such session."),
    ObjectNotUpdated: (Kind.NOT_FOUND, "It was deleted meanwhile."),
    Http404: (Kind.NOT_FOUND, "There is nothing at this address."),
    PermissionDenied: (Kind.FORBIDDEN, ""),
    MultiPartParserError: (Kind.UNREADABLE, ""),
    OperationalError: (Kind.UNAVAILABLE, "The database is unavailable. Try again in a moment."),
    InterfaceError: (Kind.UNAVAILABLE, "The database is unavailable. Try again in a moment."),
}
"""Other exceptions: kind, and a sentence if their own text is not for people."""
UNFORESEEN = Kind.INTERNAL, "Something went wrong on the server. The error was logged for its operators."


def codes_of(error: type[Exception]) -> Codes:
    return next((TABLE[base] for base in error.__mro__ if base in TABLE), None) or TABLE[kind_of(error)]


def kind_of(error: type[Exception]) -> Kind:
    return error.kind if issubclass(error, Refusal) else _kind_and_sentence(error)[0]


def sentence_of(error: Exception) -> str:
    """The sentence for people; unforeseen errors reveal no internals."""
    return str(error) if isinstance(error, Refusal) else _kind_and_sentence(type(error))[1] or str(error)


def _kind_and_sentence(error: type[Exception]) -> tuple[Kind, str]:
    return next((OTHER_ERRORS[base] for base in error.__mro__ if base in OTHER_ERRORS), UNFORESEEN)


def violations_of(error: Exception) -> Sequence[tuple[str, str]]:
    """The paths of invalid fields, each with a sentence that does not repeat the field."""
    if isinstance(error, errors.InvalidFields):
        return error.violations
    if not isinstance(error, errors.InvalidParams) or not error.field:
        return []
    sentence = str(error).removeprefix(f"{error.field}: ").removeprefix(f"{error.field.rpartition('.')[2]}: ")
    return [(error.field, sentence)]


def exceeded_by(error: Exception) -> Exceeded | None:
    """The limit that an error is about."""
    if isinstance(error, errors.LimitReached | errors.StorageFull | errors.BudgetSpent):
        return error.exceeded
    return error if isinstance(error, Exceeded) else None


def headers_of(error: Exception, status: int) -> dict[str, str]:
    """The HTTP headers of an error with this status."""
    if (exceeded := exceeded_by(error)) is not None:
        return exceeded.headers
    if isinstance(error, QuotaExceeded):
        return {"Retry-After": str(error.retry_after)}
    if isinstance(error, errors.WrongOffset):
        return {"Upload-Offset": str(error.offset)}
    if isinstance(error, errors.MethodNotAllowed):
        return {"Allow": ", ".join(error.allowed)}
    if isinstance(error, errors.NotAccepting):
        return {"Retry-After": "60"}
    if isinstance(error, errors.MissingScope):
        return {"WWW-Authenticate": challenge("insufficient_scope", error.scope)}
    match status:
        case 401:
            refused = error if isinstance(error, BadCredentials) else error.__cause__
            is_wrong = isinstance(refused, BadCredentials)
            how = refused.headers if isinstance(refused, NotSigned) else {}
            return {"WWW-Authenticate": challenge("invalid_token" if is_wrong else ""), **how}
        case 503:
            return {"Retry-After": "5" if isinstance(error, errors.NoAnswer) else "1"}
        case _:
            return {}


def plain_response(error: Exception) -> HttpResponse:
    """The error as plain text."""
    status = codes_of(type(error)).http
    return HttpResponse(
        sentence_of(error), status=status, content_type="text/plain; charset=utf-8", headers=headers_of(error, status)
    )


def log_error(log: logging.Logger, error: Exception, status: int) -> None:
    """Log the server's own errors."""
    if status == 503:
        log.warning("a request was put off: %s", error)
    elif status == 500 and not isinstance(error, Refusal):
        log.error("a request failed", exc_info=error)
    elif isinstance(error, ObjectDoesNotExist):  # maybe a row that went just now, maybe a mistake of ours
        log.warning("a request needs a row that is not there", exc_info=error)
