"""What servers that are in use get wrong in a way that leaves no doubt about what they mean."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def mend(value: Any) -> None:
    """Put the times of a task or an event, whatever it is wrapped in, into the form that A2A 1.0 §5.6.1 gives them.

    fasta2a writes them without a zone, by which UTC is meant. What is no time at all is left out.
    """
    if not isinstance(value, dict):
        return
    for one in (value, *value.values()):
        status = one.get("status") if isinstance(one, dict) else None
        if isinstance(status, dict) and "timestamp" in status:
            status["timestamp"] = _time(status["timestamp"])
            if status["timestamp"] is None:
                del status["timestamp"]


def _time(text: Any) -> str | None:
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        return None
    return moment.isoformat().replace("+00:00", "Z")
