"""What a message says of a stay, or the question for it."""

from __future__ import annotations

from typing import Any

from agentkit import InputRequired, Message, NotAnswered, TaskContext
from agentkit.slots import answer_in
from examples.agents.trip.stay import Stay

QUESTION = "Tell me about the trip: send it as JSON, or fill in the form."


def known[S: Stay](task: TaskContext, kind: type[S]) -> S | InputRequired:
    """The stay, from a form or from JSON in the text; or the question, which says what is missing."""
    parts = [part for part in task.message.parts if not _is_result(part.get("data"))]
    try:
        return answer_in(Message.from_wire({**task.message.wire, "parts": parts}), kind)
    except NotAnswered as missing:
        is_bare = not any("data" in part for part in parts) and not task.message.text.lstrip().startswith("{")
        return InputRequired(QUESTION if is_bare else f"{missing} {QUESTION}", slot=kind)


def _is_result(value: Any) -> bool:
    """What other agents delivered goes along with a message, and is no form."""
    return isinstance(value, dict) and "kind" in value
