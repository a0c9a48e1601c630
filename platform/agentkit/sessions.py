"""What an agent keeps for a whole conversation, beyond the task at hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


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
