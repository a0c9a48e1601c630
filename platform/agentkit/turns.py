"""What a handler is told about the turn that it is asked to take."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

from agentkit import slots
from agentkit.artifacts import ReceivedArtifact
from agentkit.messages import File, Message
from agentkit.parts import Loader
from agentkit.sessions import Session

if TYPE_CHECKING:
    from pydantic import BaseModel


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
        skill: the id of the skill that was chosen for this task, if its agent has skills.
        slot: the name of the question that this turn answers, if it answers one; `slot_as` gives it as it was asked.
        asked: that question as the host keeps it: `{"name", "schema"?, "value"?}`.
        resumed: True where what was asked for came without a message: `message` is that of the turn before.
        memory: JSON values that survive from turn to turn of this task; erased when the task ends.
        session: the conversation; `session.memory` survives from task to task, `session.options` are how it was set up.
        attempt: 1 for the first try of this turn, more after a crash.
        caller: a name of who is asking, to show; nothing to decide by.
    """

    task_id: str
    context_id: str
    message: Message
    history: Sequence[Message] = ()
    references: Sequence[ReferencedTask] = ()
    skill: str | None = None
    slot: str | None = None
    asked: Mapping[str, Any] = field(default_factory=dict, repr=False)
    resumed: bool = False
    memory: dict[str, Any] = field(default_factory=dict)
    session: Session = field(default_factory=Session)
    attempt: int = 1
    caller: str | None = None
    stop_signal: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """True once somebody stopped the task."""
        return self.stop_signal.is_set()

    def slot_as[K](self, kind: type[K]) -> K:
        """The question that this turn answers, as it was asked: a member of the Enum, or an instance of the model.

        Of a question that named a model's class, it is the answer (see `answer_as`). A union is no type to a type
        checker: there, let the second parameter of `on_input_received` say it.

        Raises:
            LookupError: it answers none, or none of this kind.
            NotAnswered: the answer does not fit the model.
        """
        if self.slot is None:
            raise LookupError("This turn answers no question.")
        return cast(K, slots.read_as(kind, {"name": self.slot, **self.asked}, self.message))

    def answer_as[M: "BaseModel"](self, model: type[M]) -> M:
        """This turn's message as a Pydantic model: from its data or JSON, or for a model of one field from its text.

        Raises:
            NotAnswered: it does not fit. Where a handler lets it pass, the turn ends by asking again.
        """
        return slots.answer_in(self.message, model)

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
