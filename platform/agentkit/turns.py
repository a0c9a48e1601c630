"""What a handler is told about the turn that it is asked to take."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from agentkit.artifacts import ReceivedArtifact
from agentkit.messages import File, Message
from agentkit.parts import Loader


class Stopped(BaseException):
    """Somebody stopped the task: nothing more can be said.

    Like `asyncio.CancelledError` it is no `Exception`, so that `except Exception` in a handler lets it pass.
    """


@dataclass(frozen=True)
class ReferencedTask:
    """A finished task that this one refines. `state` is A2A's, in lower case: `completed`, `failed`, …"""

    task_id: str
    state: str
    messages: list[Message]
    artifacts: list[ReceivedArtifact]

    @classmethod
    def from_wire(cls, wire: dict[str, Any], load: Loader | None = None) -> Self:
        """From a Task in its A2A 1.0 JSON shape (§4.1.1)."""
        return cls(
            wire["id"],
            wire["status"]["state"].removeprefix("TASK_STATE_").lower(),
            [Message.from_wire(message, load) for message in wire.get("history", [])],
            [ReceivedArtifact.from_wire(artifact, load) for artifact in wire.get("artifacts", [])],
        )


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a task. Everything is read-only, save that `memory` may be changed in place.

    Attributes:
        message: the message of this turn.
        history: the earlier messages of the conversation, oldest first.
        references: the finished tasks that this one refines.
        slot: the question that this turn answers, if it answers one.
        resumed: True where what was asked for came without a message: `message` is that of the turn before.
        memory: JSON values that survive from turn to turn of this task; erased when the task ends.
        attempt: 1 for the first try of this turn, more after a crash.
        caller: a name of who is asking, to show; nothing to decide by.
    """

    task_id: str
    context_id: str
    message: Message
    history: Sequence[Message] = ()
    references: Sequence[ReferencedTask] = ()
    slot: str | None = None
    resumed: bool = False
    memory: dict[str, Any] = field(default_factory=dict)
    attempt: int = 1
    caller: str | None = None
    stop_signal: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """True once somebody stopped the task."""
        return self.stop_signal.is_set()

    @property
    def metadata(self) -> dict[str, Any]:
        """What the sender attached to the message."""
        return self.message.metadata

    @property
    def files(self) -> list[File]:
        """The files of this turn's message."""
        return self.message.files

    @property
    def all_files(self) -> list[File]:
        """Every file within reach, nearest first: this turn's, the history's, those of the referenced tasks' users."""
        referenced = [
            message
            for reference in self.references
            for message in reversed(reference.messages)
            if message.role == "user"
        ]
        return [file for message in (self.message, *reversed(self.history), *referenced) for file in message.files]
