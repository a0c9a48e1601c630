"""An agent's folder: what its `agent.yaml` says, and the handler that it names."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentkit.errors import HandlerError
from agentkit.handlers import SkillHandler, load_handler

DESCRIPTION = "agent.yaml"


class Description(BaseModel):
    """An `agent.yaml`.

    Attributes:
        handler: the agent's class or function, as `module:Name`.
        command: instead, a program with its arguments (see `agentkit.adapters.command`).
        serve: instead, a command that starts an A2A server of its own at the Unix socket $A2A_SOCKET.
        name, description, version: replace the handler's.
        access: who may use it, as `access` of an agent says; a platform's usual one by default.
        mcp_tools: what MCP clients are offered: `agent`, one tool, or `skills`, one each; nothing by default.
        starters: questions to begin with, which people are shown.
        secrets: names of the environment's secrets that it needs, such as OPENAI_API_KEY.
        memory: megabytes that its processes may take together.
        start_seconds: until it answers.
    """

    model_config = ConfigDict(extra="forbid")

    handler: str = ""
    command: list[str] = []
    serve: list[str] = []
    name: str = ""
    description: str = ""
    version: str = ""
    access: Literal["", "public", "authenticated"] = ""
    mcp_tools: Literal["", "agent", "skills"] = ""
    starters: list[str] = Field(default=[], max_length=8)
    secrets: list[Annotated[str, Field(pattern="^[A-Z][A-Z0-9_]*$")]] = []
    memory: int = Field(default=512, ge=64, le=65_536)
    start_seconds: float = Field(default=30.0, gt=0, le=600)

    @model_validator(mode="before")
    @classmethod
    def _split_command(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return given | {one: shlex.split(given[one]) for one in ("command", "serve") if isinstance(given.get(one), str)}

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if [self.handler != "", bool(self.command), bool(self.serve)].count(True) != 1:
            raise ValueError("name the agent by one of handler: module:Name, command: a program, serve: an A2A server")
        return self

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises HandlerError: the folder has none, or a wrong one."""
        file = folder / DESCRIPTION
        try:
            return cls.parse(file.read_bytes(), str(file))
        except OSError:
            raise HandlerError(f"{folder.resolve()} has no {DESCRIPTION}. Name the agent as module:Name.") from None

    @classmethod
    def parse(cls, text: bytes, file: str) -> Self:
        """Raises HandlerError, which names the file."""
        try:
            return cls.model_validate(yaml.safe_load(text.decode("utf-8")))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise HandlerError(f"{file} is no YAML: {' '.join(str(error).split())}.") from None
        except ValidationError as wrong:
            first = wrong.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise HandlerError(f"{file}: {f'{where}: ' if where else ''}{first['msg']}.") from None


def slug_of(name: str) -> str:
    """An agent's name in addresses, from its folder's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-")


def agent_at(target: str) -> SkillHandler:
    """The handler of a folder with `agent.yaml`, or at `module:Name`. Their folder is put on the import path.

    Raises:
        HandlerError: there is none.
    """
    if ":" in target and not Path(target).exists():
        _import_from(Path())
        return load_handler(target)
    folder = Path(target)
    described = Description.read(folder)
    if described.serve:
        raise HandlerError(f"{folder} serves itself: {shlex.join(described.serve)}")
    if described.command:
        from agentkit.adapters.command import agent

        handler: SkillHandler = agent(described.command, folder=folder)
    else:
        _import_from(folder)
        handler = load_handler(described.handler)
    for name in ("name", "description", "version"):
        if value := getattr(described, name):
            setattr(handler, name, value)
    return handler


def _import_from(folder: Path) -> None:
    if (path := str(folder.resolve())) not in sys.path:
        sys.path.insert(0, path)
