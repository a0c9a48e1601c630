"""A handler's turn: task, session, earlier tasks and conversation (`Thread`)."""

import asyncio
import copy
import json
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast, overload

from agentkit import slots
from agentkit.clients import NO_CLIENT, Client
from agentkit.content.memories import UserMemory
from agentkit.content.messages import File, Loader, Message, Part, ReceivedArtifact, text_part
from agentkit.content.projects import Project

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True)
class Session:
    """A task's conversation.

    Attributes:
        memory: JSON values that last from task to task of this conversation; change them in place. The host stores them
            key by key when the turn ends: if concurrent tasks set a key, the last one wins. Clearing the conversation
            erases them. The platform accepts up to 64 KiB.
        options: people's settings of the agent for this conversation; read-only JSON values.
    """

    memory: dict[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))


@dataclass(frozen=True)
class ReferencedTask:
    """A finished task that this one refines. `state` is A2A's in lower case: `completed`, `failed`, …"""

    task_id: str
    state: str
    messages: Sequence[Message]
    artifacts: Sequence[ReceivedArtifact]

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", tuple(self.messages))
        object.__setattr__(self, "artifacts", tuple(self.artifacts))

    @classmethod
    def from_wire(cls, wire: dict[str, Any], load: Loader | None = None) -> Self:
        """From a Task in A2A 1.0 JSON (§4.1.1)."""
        return cls(
            wire["id"],
            wire["status"]["state"].removeprefix("TASK_STATE_").lower(),
            [Message.from_wire(message, load) for message in wire.get("history", [])],
            [ReceivedArtifact.from_wire(artifact, load) for artifact in wire.get("artifacts", [])],
        )


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a task. Everything is read-only, except that `memory` may be changed in place.

    Attributes:
        message: this turn's message.
        history: the conversation's earlier messages, oldest first.
        references: the finished tasks that this one refines.
        skill: the id of the task's skill, if chosen.
        slot: the name of the question that this turn answers, if any; see `slot_as`.
        asked: that question as the host stores it: `{"name", "schema"?, "value"?}`; after a
            payment also `payment`.
        resumed: True if the task continues without a new message, for instance with a credential. `message` is then the
            previous turn's.
        memory: JSON values that last from turn to turn of this task; erased when it ends.
        session: the conversation, with `session.memory` and `session.options`.
        attempt: 1, or more if the turn began before and was cut off.
        caller: who asks, for display only; do not use it for decisions.
        client: what the sender's program asks besides the message, such as tools of its own.
        project: the project that the conversation is in, with its instructions and files; None without one.
        user_memory: what the agent may know about who asks; None if it may know nothing.
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
    client: Client = field(default=NO_CLIENT, repr=False)
    project: Project | None = None
    user_memory: UserMemory | None = None
    stop_signal: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    stop_after_step: asyncio.Event = field(default_factory=asyncio.Event, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "history", tuple(self.history))
        object.__setattr__(self, "references", tuple(self.references))
        if self.client is NO_CLIENT:
            object.__setattr__(self, "client", Client.of(self.message, self.asked))

    @property
    def cancelled(self) -> bool:
        """True after the task was stopped. (The state is `canceled`; this name follows `asyncio`.)"""
        return self.stop_signal.is_set()

    @property
    def stop_requested(self) -> bool:
        """True once somebody asks the turn to stop after its step: finish the step, and end with what there is."""
        return self.stop_after_step.is_set()

    def slot_as[K](self, kind: type[K]) -> K:
        """The slot that this turn answers: an Enum member or a model instance.

        For a model's class it is the answer (see `answer_as`). For a union, annotate `slot` in `on_input_received`
        instead: type checkers do not accept a union here.

        Raises:
            LookupError: the turn answers no question, or one of another kind.
            NotAnswered: the answer does not fit the model.
        """
        if self.slot is None:
            raise LookupError("This turn answers no question.")
        return cast(K, slots.read_slot(kind, {"name": self.slot, **self.asked}, self.message))

    def answer_as[M: "BaseModel"](self, model: type[M]) -> M:
        """This turn's message as a Pydantic model: from data, from JSON text, or (one field) from the text itself.

        Raises:
            NotAnswered: it does not fit. If you let it pass, the question is repeated.
        """
        return slots.answer_in(self.message, model)

    @property
    def answer(self) -> Any:
        """The answer to the question (`asked`) in the type of its schema: from data, or from the text, such as a
        choice's title or JSON. Without a schema, the text.

        Raises:
            LookupError: the turn answers no question.
            NotAnswered: it has another type, or is none of the choices. If you let it pass, the question is repeated.
        """
        if self.slot is None:
            raise LookupError("This turn answers no question.")
        return slots.checked_answer({"name": self.slot, **self.asked}, self.message)

    @property
    def payment(self) -> dict[str, Any] | None:
        """The receipt of the payment that this turn follows (x402: `transaction`, `network`, `payer`), or None."""
        paid = self.asked.get("payment")
        return dict(paid["receipt"]) if isinstance(paid, Mapping) and "receipt" in paid else None

    @property
    def metadata(self) -> dict[str, Any]:
        """The message's metadata."""
        return self.message.metadata

    @property
    def files(self) -> list[File]:
        """The files of this turn's message only."""
        return self.message.files

    @property
    def all_files(self) -> list[File]:
        """All files, nearest first: of this message, of earlier messages (newest first), of users' messages in
        referenced tasks.
        """
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
    """Messages, oldest first. Threads are equal if the same roles said the same.

    `thread = Thread().add("user", "Hello").add("agent", "Good day")`
    """

    messages: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", tuple(self.messages))

    @classmethod
    def of(cls, task: "Turn") -> Self:
        """A turn's conversation, with its message last."""
        return cls((*task.history, task.message))

    def add(self, message: Message | str, text: str | Sequence[Part] = "") -> Self:
        """A new thread with one more: a `Message`, or text (or parts) of "user" or "agent".

        Raises:
            ValueError: the role is unknown.
        """
        if isinstance(message, Message):
            return type(self)((*self.messages, message))
        if message not in ROLES:
            raise ValueError(f"A message is of the role user or agent, not {message!r}.")
        parts = [text_part(text)] if isinstance(text, str) else [*text]
        return type(self)((*self.messages, Message.from_wire({"role": ROLES[message], "parts": parts})))

    @classmethod
    def from_a2a(cls, messages: Iterable[dict[str, Any]]) -> Self:
        """From A2A 1.0 JSON messages, such as a Task's `history`."""
        return cls(tuple(map(Message.from_wire, messages)))

    def to_a2a(self) -> list[dict[str, Any]]:
        """A2A 1.0 JSON (§4.1.4). An added message gets an id derived from its content."""
        return [
            {"messageId": _message_id(at, one), "role": _wire_role(one), **copy.deepcopy(one.wire)}
            for at, one in enumerate(self.messages)
        ]

    @property
    def last(self) -> Message | None:
        """The newest message, or None."""
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
