"""What a villain does to Parley, and how the task must end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from apps.record.projection import differences
from tests.a2a.calling import JSON, text_of
from tests.remote.hostile.villain import Answering, Villain

IDLE = 2.0
LIMIT = 12.0  # seconds of a turn
MOST = 200_000
LOST = r"lost after the message was sent"
AWAY = r"could not be reached for \d+ seconds"
OVER = rf"longer than its limit of {LIMIT:g} seconds"
UNREADABLE = "cannot be read|does not have the form|is not a JSON object|neither a result nor an error"
TOO_LARGE = r"larger than|more than \d+ bytes|times as large|100 times"
STREAM = "SendStreamingMessage"
WELL = "one two three "


@dataclass(frozen=True)
class Ordeal:
    """How a villain answers, by method, and how the task ends.

    Attributes:
        state: "completed", "failed" and so on.
        says: a pattern of the message that people see.
        text: of the artifact "answer", if the task completes.
        prepare: changes more of the villain than its answers.
    """

    name: str
    on: dict[str, Answering] = field(default_factory=dict)
    state: str = "failed"
    says: str = ""
    text: str = WELL
    prepare: Callable[[Villain], None] = lambda villain: None

    def set(self, villain: Villain) -> None:
        villain.on.update(self.on)
        self.prepare(villain)

    def judge(self, task: JSON) -> None:
        """Fails if the task ended wrongly or its message is unclear."""
        said = text_of(task["status"].get("message", {"parts": []}))
        shown = f"{task['status']['state']}: {said}"
        assert task["status"]["state"] == f"TASK_STATE_{self.state.upper()}", shown
        assert re.search(self.says, said), shown
        assert not re.search(r"Traceback|Error\b|Exception|0x[0-9a-f]{6}|/apps/|None\b", said), said
        assert len(said) < 1000, said
        answers = {artifact["name"]: text_of(artifact) for artifact in task.get("artifacts", [])}
        assert answers == ({"answer": self.text} if self.state == "completed" else {}), answers


def went_well(name: str, **on: Answering) -> Ordeal:
    return Ordeal(name, on, "completed")


def disagreements(context_ids: Sequence[str]) -> list[str]:
    """Differences between a log and the rows derived from it."""
    return [line for context_id in context_ids for line in differences(context_id)]
