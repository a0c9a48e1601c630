"""What a handler says on the way to its outcome. The host receives these one at a time, in order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit.artifacts import Artifact
from agentkit.parts import Part


@dataclass(frozen=True)
class Progress:
    """A line for people about what is going on; `done` of `total`, in units of the handler's choice.

    Who passes on what another system says may give its `parts` instead of a text, and its message's id and metadata.
    """

    text: str
    done: float | None = None
    total: float | None = None
    parts: Sequence[Part] = ()
    message_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Token:
    """A piece of the answer's text. The host joins small ones, so that each costs next to nothing."""

    text: str


@dataclass(frozen=True)
class WholeAnswer:
    """All of the answer's text, in place of the tokens that were said before."""

    text: str


@dataclass(frozen=True)
class Chunk:
    """A piece of an artifact, recorded as it is, never joined with another."""

    artifact_id: str
    name: str
    description: str
    parts: Sequence[Part]
    append: bool
    last: bool
    metadata: dict[str, Any] = field(default_factory=dict)
    extensions: Sequence[str] = ()

    @classmethod
    def whole(cls, artifact: Artifact) -> "Chunk":
        """An artifact that is complete, as its only chunk."""
        return cls(
            artifact.artifact_id,
            artifact.name,
            artifact.description,
            artifact.parts,
            append=False,
            last=True,
            metadata=artifact.metadata,
        )


@dataclass(frozen=True)
class Thought:
    """Reasoning, kept only where the agent's owner wants it kept; it never leaves the platform."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    call_id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ToolResult:
    call_id: str
    name: str
    result: Any
    is_error: bool = False


@dataclass(frozen=True)
class SkillChosen:
    """Said by `drive` where the turn itself found out which skill takes the task; later turns are given it."""

    skill: str


@dataclass(frozen=True)
class Usage:
    """What the work of a language model took; the host adds up what it is told. Tokens are the model's own count."""

    model: str
    requests: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Foreign:
    """What another system says that none of these has a place for; the record keeps it, and nobody is shown it."""

    said: dict[str, Any]


Emission = Progress | Token | WholeAnswer | Chunk | Foreign | Thought | ToolCall | ToolResult | SkillChosen | Usage
