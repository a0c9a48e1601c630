"""The project of a conversation: what its people want all agents to know.

It is also an extension of A2A (`docs/extensions/project-v1.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from agentkit.content.messages import File, Loader
from agentkit.errors import did_you_mean

ENDING = "/ext/project/v1"  # of the extension's URI, whatever comes before it
URI = f"https://agentkit.invalid{ENDING}"

type Json = dict[str, Any]


@dataclass(frozen=True)
class Project:
    """A project: a name, instructions for all agents, and files.

    `LlmWorker` and `LlmFunction` tell their model of it by themselves. The instructions are people's words, not the
    agent's author's.
    """

    id: str
    name: str
    instructions: str = ""
    files: Sequence[File] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", tuple(self.files))

    def file(self, name: str) -> File:
        """The file with this name; `read()` has its content. Raises LookupError."""
        for one in self.files:
            if one.name == name:
                return one
        near = did_you_mean(name, (one.name for one in self.files))
        raise LookupError(f"The project has no file {name!r}.{near}")

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any], load: Loader | None = None) -> Self:
        """From the extension's JSON, whose files are A2A parts. Raises ValueError with a sentence."""
        key, name, instructions = texts = [wire.get(name, "") for name in ("id", "name", "instructions")]
        files = wire.get("files", [])
        if not all(isinstance(one, str) for one in texts) or not isinstance(files, list):
            raise ValueError("A project has id, name and instructions as texts, and files as a list of parts.")
        if not all(isinstance(one, dict) for one in files):
            raise ValueError("Each file of a project is a part: an object.")
        return cls(key, name, instructions, [File(one, load) for one in files])
