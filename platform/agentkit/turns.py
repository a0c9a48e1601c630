"""What a handler is told about its turn: the task, the session, the earlier tasks and the conversation (`Thread`)."""

import copy
import json
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast, overload

from agentkit import slots
from agentkit.messages import File, Loader, Message, Part, ReceivedArtifact, text_part

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True)
class Session:
    """The conversation that a task belongs to.

    Attributes:
        memory: JSON values that survive from task to task of this conversation, to be changed in place. The host keeps
            them when the turn ends, key by key: of two tasks side by side that set the same key, the later one wins.
            Erased when the conversation is cleared. The platform takes up to 64 KiB.
        options: how people set the agent up for this conversation, as JSON values; to be read only.
    """

    memory: dict[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))


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
        return cast(K, slots.read_slot(kind, {"name": self.slot, **self.asked}, self.message))

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


ROLES = {"user": "ROLE_USER", "agent": "ROLE_AGENT", "assistant": "ROLE_AGENT"}


@dataclass(frozen=True, eq=False, repr=False)
class Thread(Sequence[Message]):
    """Messages, oldest first. Two threads are equal where the same was said by the same roles.

    `thread = Thread().add("user", "Hello").add("agent", "Good day")`
    """

    messages: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", tuple(self.messages))

    @classmethod
    def of(cls, task: "Turn") -> Self:
        """The conversation of a turn, the message of the turn included."""
        return cls((*task.history, task.message))

    def add(self, message: Message | str, text: str | Sequence[Part] = "") -> Self:
        """A new thread with one more message: a `Message`, or the words (or parts) of "user" or "agent".

        Raises:
            ValueError: there is no such role.
        """
        if isinstance(message, Message):
            return type(self)((*self.messages, message))
        if message not in ROLES:
            raise ValueError(f"A message is of the role user or agent, not {message!r}.")
        parts = [text_part(text)] if isinstance(text, str) else [copy.deepcopy(part) for part in text]
        return type(self)((*self.messages, Message.from_wire({"role": ROLES[message], "parts": parts})))

    @classmethod
    def from_a2a(cls, messages: Iterable[dict[str, Any]]) -> Self:
        """From messages in their A2A 1.0 JSON shape, such as a Task's `history`."""
        return cls(tuple(Message.from_wire(copy.deepcopy(message)) for message in messages))

    def to_a2a(self) -> list[dict[str, Any]]:
        """The messages in their A2A 1.0 JSON shape (§4.1.4). One that was added has an id made from what it says."""
        return [
            {"messageId": _message_id(at, one), "role": _wire_role(one), **copy.deepcopy(one.wire)}
            for at, one in enumerate(self.messages)
        ]

    @property
    def last(self) -> Message | None:
        """The newest message, if there is one."""
        return self.messages[-1] if self.messages else None

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: int | slice) -> Message | Self:
        return type(self)(self.messages[at]) if isinstance(at, slice) else self.messages[at]

    def __eq__(self, other: object) -> bool:
        return self._said() == other._said() if isinstance(other, Thread) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple((role, *(part.get("text") for part in parts)) for role, parts in self._said()))

    def __repr__(self) -> str:
        return f"Thread({', '.join(f'{one.role}: {one.text[:40]!r}' for one in self.messages)})"

    def _said(self) -> list[tuple[str, list[Part]]]:
        return [(one.role, one.parts) for one in self.messages]


def _wire_role(message: Message) -> str:
    return ROLES[message.role]


def _message_id(at: int, message: Message) -> str:
    said = json.dumps([at, message.role, message.parts], sort_keys=True, default=str)
    return str(uuid.uuid5(uuid.NAMESPACE_OID, said))
