"""What an event, a message or an artifact is about, in one line."""

from collections.abc import Callable, Iterable
from typing import Any

from apps.record.events import JSON, EventType
from apps.record.models import Event


def gist(event: Event) -> str:
    describe = GISTS.get(EventType(event.type))
    return describe(event.payload) if describe else ""


def gist_of_parts(parts: Iterable[JSON]) -> str:
    return " · ".join(filter(None, map(gist_of_part, parts)))


def gist_of_part(part: JSON) -> str:
    """A part's text; of anything else its name or kind."""
    if text := part.get("text"):
        return str(text)
    name = part.get("filename") or part.get("url") or part.get("mediaType")
    if stored := part.get("stored"):
        return f"{name or stored['kind']} ({stored['size']:,} bytes)"
    return str(name or ("data" if "data" in part else "raw" if "raw" in part else ""))


def _message(payload: JSON) -> str:
    return gist_of_parts(payload["message"]["parts"])


def _status(payload: JSON) -> str:
    said = _message(payload) if payload.get("message") else payload.get("because")
    return f"{payload['state']}: {said}" if said else str(payload["state"])


def _start(payload: JSON) -> str:
    return f"turn {payload['turn']}, attempt {payload['attempt']}"


def _token(payload: JSON) -> str:
    return str(payload.get("text", ""))


def _chunk(payload: JSON) -> str:
    artifact = payload["artifact"]
    name, content = artifact.get("name") or artifact["artifactId"], gist_of_parts(artifact["parts"])
    return f"{name}: {content}"


def _result(payload: JSON) -> str:
    return f"{payload['name']} failed" if payload["isError"] else f"{payload['name']} → {payload['result']}"


def _feedback(payload: JSON) -> str:
    stars = f"{payload['rating']} of 5"
    return f"{stars}: {payload['feedback']}" if payload.get("feedback") else stars


def _list_of(key: str, nothing: str) -> Callable[[JSON], str]:
    return lambda payload: ", ".join(payload[key]) or nothing


GISTS: dict[EventType, Callable[[JSON], Any]] = {
    EventType.USER_MESSAGE: _message,
    EventType.AGENT_MESSAGE: _message,
    EventType.AGENT_STATUS: _status,
    EventType.AGENT_START: _start,
    EventType.AGENT_TOKEN_START: lambda payload: payload["name"],
    EventType.AGENT_TOKEN: _token,
    EventType.AGENT_TOKEN_END: _token,
    EventType.AGENT_THOUGHT: _token,
    EventType.AGENT_TOOL_CALL: lambda payload: payload["name"],
    EventType.AGENT_TOOL_RESULT: _result,
    EventType.ARTIFACT_UPDATE: _chunk,
    EventType.AGENT_COMPLETE: _list_of("artifacts", "no artifact"),
    EventType.AGENT_FAILED: lambda payload: payload["code"],
    EventType.AGENT_CANCELLED: _list_of("discarded", "nothing discarded"),
    EventType.FEEDBACK: _feedback,
    EventType.FORK: lambda payload: f"{payload['reason']}, at event {payload['at']}",
    EventType.AGENT_SWITCHED: lambda payload: f"to {payload['slug']}",
    EventType.SESSION_RENAMED: lambda payload: payload["title"],
}
