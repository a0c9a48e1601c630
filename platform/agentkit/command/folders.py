"""An agent's folder: what its `agent.yaml` says, and the handler that it names."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from agentkit.errors import HandlerError
from agentkit.handlers import SkillHandler, load_handler

DESCRIPTION = "agent.yaml"


class Description(BaseModel):
    """An `agent.yaml`.

    Attributes:
        handler: the agent's class or function, as `module:Name`.
        command: instead, a program with its arguments (see `agentkit.adapters.command`).
        name, description, version: replace the handler's.
    """

    model_config = ConfigDict(extra="forbid")

    handler: str = ""
    command: list[str] = []
    name: str = ""
    description: str = ""
    version: str = ""

    @model_validator(mode="before")
    @classmethod
    def _split_command(cls, given: object) -> object:
        if isinstance(given, dict) and isinstance(given.get("command"), str):
            return given | {"command": shlex.split(given["command"])}
        return given

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if bool(self.handler) == bool(self.command):
            raise ValueError("name the agent either by handler: module:Name, or by command: a program")
        return self

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises HandlerError: the folder has none, or a wrong one."""
        file = folder / DESCRIPTION
        try:
            return cls.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
        except OSError:
            raise HandlerError(f"{folder.resolve()} has no {DESCRIPTION}. Name the agent as module:Name.") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise HandlerError(f"{file} is no YAML: {' '.join(str(error).split())}.") from None
        except ValidationError as wrong:
            first = wrong.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise HandlerError(f"{file}: {f'{where}: ' if where else ''}{first['msg']}.") from None


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
