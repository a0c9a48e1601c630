"""Errors in the shape of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from django.http import HttpResponse

from apps.a2a.errors import problem
from apps.a2a.http import json_response
from apps.agents.models import AgentNotFound
from apps.api.framework.problems import IDEMPOTENCY_HEADER
from apps.doors.turns import End
from apps.record.error_table import violations_of
from apps.record.errors import KeyUsed, Refusal
from apps.record.events import JSON
from apps.record.models import TaskState

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
    502: "agent_error",
    503: "service_unavailable_error",
}
"""By HTTP status; others are `invalid_request_error` or `server_error`."""
NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients would run the agent again."""


class ResponseNotFound(Refusal):
    """There is no such response."""


class AddressNotFound(Refusal):
    """There is no such address. See GET /v1/models, POST /v1/chat/completions and POST /v1/responses."""


class NothingToCancel(Refusal):
    """The response has ended."""


STATUS: dict[type[Exception], tuple[int, str]] = {
    AgentNotFound: (404, "model_not_found"),
    ResponseNotFound: (404, "response_not_found"),
    AddressNotFound: (404, "unknown_url"),
    NothingToCancel: (400, "response_ended"),
}
"""HTTP status and code of the door's own errors; the others are as in A2A."""


class AgentFailed(Exception):
    """The agent ended without an answer: it failed, declined, or was stopped."""

    def __init__(self, end: End) -> None:
        super().__init__(end.words or f"The agent was {end.state}.")
        self.code = end.code or str(end.state)
        self.status = 502 if end.state == TaskState.FAILED else 422


def error_json(error: Exception) -> JSON:
    return {"error": _described(error)[1]}


def error_response(error: Exception) -> HttpResponse:
    status, described, headers = _described(error)
    return json_response({"error": described}, status, headers)


def _described(error: Exception) -> tuple[int, JSON, dict[str, str]]:
    if isinstance(error, AgentFailed):
        said = {
            "message": str(error),
            "type": TYPES.get(error.status, "invalid_request_error"),
            "param": None,
            "code": error.code,
        }
        return error.status, said, NO_RETRY
    if isinstance(error, KeyUsed):
        error = error.named(IDEMPOTENCY_HEADER)
    refused = problem(error)
    status, code = STATUS.get(type(error), (refused.codes.a2a, refused.codes.reason.lower() or None))
    violations = violations_of(error)
    message = refused.message if not violations else "; ".join(f"{path}: {text}" for path, text in violations)
    param = violations[0][0] if violations else None
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return status, {"message": message, "type": kind, "param": param, "code": code}, refused.http_headers
