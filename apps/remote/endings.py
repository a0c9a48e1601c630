"""How a remote agent's turn ends here: one table by the state of its task, with its own words where it said some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentkit import AuthRequired, Completed, Failed, InputRequired, Outcome, Part, Rejected
from apps.record.events import JSON
from apps.record.lifecycle import TaskState
from apps.remote.transforming import sorted_out, state_of

LONGEST_SLOT = 100
LONGEST_SAYING = 4_000  # characters of a delivered text that is said, too, where the agent says nothing itself


def outcome_of(task: JSON, hints: JSON, answer: str) -> Outcome:
    """The outcome of a remote task that has settled.

    `hints` is the metadata of its last status update, which may describe the answer that is asked for; `answer` is the
    text that the agent said as its answer.
    """
    state = state_of(task["status"])
    if state is None or state not in ENDINGS:
        raise AssertionError(f"a task that is {task['status'].get('state')!r} has not settled")
    return ENDINGS[state](_message(task), hints, answer or _delivered_text(task))


def answered(message: JSON) -> Outcome:
    """The outcome of a turn to which the agent answered with a message and no task."""
    return Completed(_parts(message) or None, metadata=_metadata(message))


def _message(task: JSON) -> JSON:
    """What the agent said at the end: of its status, or the last of its messages where it keeps it there alone."""
    if message := task["status"].get("message"):
        return dict(message)
    last = (task.get("history") or [{}])[-1]
    is_its_own = last.get("role") == "ROLE_AGENT" and state_of(task["status"]) is not TaskState.CANCELED
    return dict(last) if is_its_own else {}


def _delivered_text(task: JSON) -> str:
    """What the only artifact says, if it is a short text and nothing else."""
    artifacts = task.get("artifacts") or []
    parts = artifacts[0].get("parts", []) if len(artifacts) == 1 else []
    text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    is_all = all("text" in part and "filename" not in part for part in parts)
    return text if is_all and len(text) <= LONGEST_SAYING else ""


def _completed(message: JSON, hints: JSON, answer: str) -> Outcome:
    return Completed(_parts(message) or answer or None, metadata=_metadata(message))


def _failed(message: JSON, hints: JSON, answer: str) -> Outcome:
    return Failed(_parts(message) or "The agent says that it failed, and not why.", metadata=_metadata(message))


def _rejected(message: JSON, hints: JSON, answer: str) -> Outcome:
    return Rejected(_parts(message) or "The agent declined to do this, and did not say why.", _metadata(message))


def _canceled(message: JSON, hints: JSON, answer: str) -> Outcome:
    said = _parts(message) or "The agent itself canceled this task. Send the message again if you still want it."
    return Failed(said, "canceled_by_agent", _metadata(message))


def _asking(message: JSON, hints: JSON, answer: str) -> Outcome:
    slot, metadata = _slot(message, hints), _metadata(message)
    return InputRequired(_parts(message) or "The agent asks for more.", slot["name"], slot.get("schema"), metadata)


def _wanting_credentials(message: JSON, hints: JSON, answer: str) -> Outcome:
    said = _parts(message) or "The agent wants you to sign in, and does not say where. Ask it, or its operators."
    slot = _slot(message, hints, "credential")
    return AuthRequired(said, slot["name"], slot.get("schema"), _metadata(message))


ENDINGS: dict[TaskState, Callable[[JSON, JSON, str], Outcome]] = {
    TaskState.COMPLETED: _completed,
    TaskState.FAILED: _failed,
    TaskState.REJECTED: _rejected,
    TaskState.CANCELED: _canceled,
    TaskState.INPUT_REQUIRED: _asking,
    TaskState.AUTH_REQUIRED: _wanting_credentials,
}


def _parts(message: JSON) -> list[Part]:
    return sorted_out(message.get("parts", []))[0]  # type: ignore[return-value]


def _metadata(message: JSON) -> JSON:
    """Its own, and the extensions that it says its message has."""
    return dict(message.get("metadata") or {})


def _slot(message: JSON, hints: JSON, name: str = "input") -> JSON:
    """What is asked for, where the agent describes it: as Parley does in a status's metadata, or in its message's."""
    for place in (hints.get("slot"), (message.get("metadata") or {}).get("slot"), message.get("metadata")):
        schema: Any = place.get("schema") if isinstance(place, dict) else None
        if isinstance(place, dict) and isinstance(schema, dict):
            own = place.get("name")
            return {"name": own[:LONGEST_SLOT] if isinstance(own, str) and own else name, "schema": schema}
    return {"name": name}
