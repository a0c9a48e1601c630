"""A conversation as a value: it never changes, `add` gives a new one."""

import copy
import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, overload

from agentkit.messages import Message
from agentkit.parts import Part, text_part

if TYPE_CHECKING:
    from agentkit.turns import Turn

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
            {"messageId": _id_of(at, one), "role": _role_of(one), **copy.deepcopy(one.wire)}
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


def _role_of(message: Message) -> str:
    return ROLES[message.role]


def _id_of(at: int, message: Message) -> str:
    said = json.dumps([at, message.role, message.parts], sort_keys=True, default=str)
    return str(uuid.uuid5(uuid.NAMESPACE_OID, said))
