"""An error as A2A tells it, over JSON-RPC and HTTP+JSON (A2A 1.0 §9.5, §11.6)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.record.error_table import Codes, codes_of, exceeded_by, headers_of, log_error, sentence_of, violations_of
from apps.record.errors import TaskGenerationMismatch

log = logging.getLogger("parley.a2a")

JSON = dict[str, Any]
DOMAIN = "a2a-protocol.org"
EMPTY: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a caller sees it."""

    codes: Codes
    message: str
    details: list[JSON] = field(default_factory=list)
    http_headers: dict[str, str] = field(default_factory=dict)

    @property
    def status(self) -> JSON:
        """The `google.rpc.Status` of HTTP+JSON (A2A 1.0 §11.6)."""
        return {
            "error": {
                "code": self.codes.a2a,
                "status": self.codes.grpc,
                "message": self.message,
                "details": self.details,
            }
        }

    @property
    def brief(self) -> JSON:
        """Without details, as AG-UI front ends and senders of webhooks get it."""
        return {"error": {"code": self.codes.reason or self.codes.grpc, "message": self.message}}


def problem(error: Exception) -> Problem:
    """What the caller sees of an error. Server errors are logged."""
    codes = codes_of(type(error))
    log_error(log, error, codes.a2a)
    return Problem(codes, sentence_of(error), _details(error, codes), headers_of(error, codes.a2a))


def _details(error: Exception, codes: Codes) -> list[JSON]:
    exceeded = exceeded_by(error)
    details = details_of(codes, _metadata(error))
    if exceeded and exceeded.retry_after:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{exceeded.retry_after}s"})
    if violations := violations_of(error):
        listed = [{"field": path, "description": sentence} for path, sentence in violations]
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": listed})
    return details


def details_of(codes: Codes, metadata: Mapping[str, str] = EMPTY) -> list[JSON]:
    """The reason, for programs."""
    if not codes.reason:
        return []
    told = {"reason": codes.reason, "domain": DOMAIN, "metadata": dict(metadata)}
    return [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **told}]


def _metadata(error: Exception) -> dict[str, str]:
    """What an error is about, by name."""
    if isinstance(error, TaskGenerationMismatch):
        return error.metadata
    exceeded = exceeded_by(error)
    return {name: str(value) for name, value in exceeded.data.items()} if exceeded else {}
