"""What an agent's errors are called here: those of JSON-RPC, of HTTP, and of A2A 1.0 and 0.3 in either."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from a2a.utils.errors import A2A_ERROR_REASONS, JSON_RPC_ERROR_CODE_MAP

from apps.remote.errors import Overloaded, Refused, RemoteError, Unauthorized

JSON = dict[str, Any]
REASON_OF_CODE = {code: A2A_ERROR_REASONS.get(kind, "PARSE_ERROR") for kind, code in JSON_RPC_ERROR_CODE_MAP.items()}
REASON_OF_NAME = {kind.__name__: reason for kind, reason in A2A_ERROR_REASONS.items()}  # HTTP+JSON of A2A 0.3
REASON = re.compile(r"[A-Z][A-Z0-9_]{0,62}")
UNREADABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
LONGEST = 300  # characters of what an agent says
LONGEST_WAIT = 24 * 3600.0  # seconds
BROKEN = (500, 502, 504)  # of a server, or a proxy, that broke down


def refusal(response: httpx.Response, body: Any) -> RemoteError:
    """Why this response, whose body holds this JSON value or None, is no answer."""
    status, error = response.status_code, error_in(body)
    said = _said(error, body)
    if status in (401, 403):
        return Unauthorized(
            _sentence(
                "The agent wants a credential" if status == 401 else "The agent does not let this credential in", said
            ),
            status=status,
            challenge=plain(response.headers.get("www-authenticate", "")),
        )
    if status in (429, 503):
        wait = retry_after(response.headers.get("retry-after", ""))
        return Overloaded(_sentence("The agent takes no more work now", said), status=status, retry_after=wait)
    reason = reason_of(error, body) or f"HTTP_{status}"
    return Refused(
        _sentence(f"The agent refused ({reason})", said),
        reason=reason,
        status=status,
        said=said,
        is_transient=status in BROKEN and reason in ("INTERNAL_ERROR", f"HTTP_{status}"),
    )


def error_in(body: Any) -> JSON | None:
    """The error object that an answer or an event has instead of a result."""
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else None


def reason_of(error: JSON | None, body: Any = None) -> str:
    """What A2A calls the error, by its ErrorInfo, by its code, or by the name that 0.3 gives it; "" where none does."""
    for detail in _details(error):
        if str(detail.get("@type", "")).endswith("google.rpc.ErrorInfo"):
            reason = str(detail.get("reason"))
            if REASON.fullmatch(reason):
                return reason
    code = (error or {}).get("code")
    if isinstance(code, int) and code < 0:
        return REASON_OF_CODE.get(code, f"JSONRPC_{code}" if code > -100_000 else "")
    name = body.get("type") if isinstance(body, dict) else None
    return REASON_OF_NAME.get(name, "") if isinstance(name, str) else ""


def _details(error: JSON | None) -> list[JSON]:
    given = (error or {}).get("details", (error or {}).get("data"))
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def _said(error: JSON | None, body: Any) -> str:
    given: JSON = error or (body if isinstance(body, dict) else {})
    return next((plain(given[name]) for name in ("message", "detail", "title") if isinstance(given.get(name), str)), "")


def plain(text: str) -> str:
    """What an agent says, on one line, cut, and without characters that hide or reorder others."""
    bare = UNREADABLE.sub(" ", text).strip()
    return bare if len(bare) <= LONGEST else f"{bare[:LONGEST]}…"


def _sentence(ours: str, theirs: str) -> str:
    return f"{ours}: {theirs}" if theirs else f"{ours}."


def retry_after(text: str) -> float | None:
    """Seconds to wait by a Retry-After, of either form (RFC 9110 §10.2.3); None where there is none to be read."""
    try:
        seconds = float(text) if text.strip().isdigit() else _seconds_until(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT)


def _seconds_until(moment: datetime) -> float:
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
