"""Answers over HTTP that are not streams: JSON, and errors as a `google.rpc.Status`."""

from __future__ import annotations

import json

from django.http import HttpResponse

from apps.a2a.errors import JSON, log_problem, problem

JSON_TYPE = "application/json"


def json_response(
    value: JSON, status: int = 200, headers: dict[str, str] | None = None, content_type: str = JSON_TYPE
) -> HttpResponse:
    """A JSON object that no cache keeps."""
    content = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    response = HttpResponse(content, content_type=content_type, status=status, headers=headers)
    response["Cache-Control"] = "no-store"
    return response


def refusal(error: Exception, content_type: str = JSON_TYPE) -> HttpResponse:
    """What a caller is told of an error outside JSON-RPC (A2A 1.0 §11.6)."""
    told = problem(error)
    log_problem(error, told)
    return json_response(told.status, told.row.http, told.http_headers, content_type)
