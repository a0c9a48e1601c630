"""Agents without code: their definition, tools, and secrets for tool servers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Self

import pydantic
import yaml
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.text import slugify
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from agentkit import HandlerError, TaskContext
from agentkit.llm.reading import MODEL_INPUTS
from agentkit.tools import ToolFunction, is_tool, traits_of
from apps.agents.models import Agent, ToolSecret
from apps.installation import current
from apps.installation.models import SharedToolServer
from parley import outbound
from parley.registry import added, tool_modules


@dataclass(frozen=True)
class RegisteredTool:
    """A function that language models may call."""

    name: str
    description: str
    function: ToolFunction

    @property
    def summary(self) -> str:
        """The description's first paragraph, on one line."""
        return " ".join(self.description.split("\n\n")[0].split())


def all_tool_modules() -> list[str]:
    """The modules whose tools operators may give to agents: those of AGENT_TOOLS and of apps."""
    return [*settings.AGENT_TOOLS, *tool_modules()]


def registered_tools(modules: Sequence[str] | None = None) -> dict[str, RegisteredTool]:
    """The tools by name, in the order of `all_tool_modules`; or those of these modules.

    Raises HandlerError if a module cannot be imported or has no tools, or two tools have one name.
    """
    return _load_tools(tuple(all_tool_modules() if modules is None else modules))


def turn_tools(task: TaskContext) -> list[ToolFunction]:
    """What apps add to the tools of a turn of an agent without code, or of the Assistant. They may ask the database."""
    return [one for tools_for in added["turn_tools"] for one in tools_for(task)]


@cache
def _load_tools(modules: tuple[str, ...]) -> dict[str, RegisteredTool]:
    found: dict[str, RegisteredTool] = {}
    for module in modules:
        for tool in _tools_of(module):
            if found.setdefault(tool.name, tool) is not tool:
                raise HandlerError(f"Two functions of AGENT_TOOLS are named {tool.name}. Give one another name.")
    return found


def _tools_of(module_name: str) -> list[RegisteredTool]:
    try:
        module = import_module(module_name)
    except BaseException as error:
        raise HandlerError(f"The module {module_name!r} of AGENT_TOOLS cannot be imported: {error}") from error
    if functions := [one for one in vars(module).values() if is_tool(one)]:
        described = [(traits_of(function), function) for function in functions]
        return [RegisteredTool(traits.name, traits.description, function) for traits, function in described]
    raise HandlerError(f"The module {module_name!r} of AGENT_TOOLS has no tools: mark its functions with @tool().")


JSON = dict[str, Any]

MAX_FILE_BYTES = 200_000  # of a definition
MAX_STEPS = 100
MAX_URL_LENGTH = 2000
HEADER_NAME = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"  # RFC 9110 §5.1


def clean_text(text: Any) -> Any:
    """Normalize line ends. Raises ValueError for characters that databases refuse."""
    if not isinstance(text, str):
        return text
    if "\0" in text or any("\ud800" <= one <= "\udfff" for one in text):
        raise ValueError("Write text without control characters.")
    return text.replace("\r\n", "\n").strip()


Text = Annotated[str, Field(min_length=1), BeforeValidator(clean_text)]
Line = Annotated[str, Field(min_length=1, max_length=200), BeforeValidator(clean_text)]
Name = Annotated[str, Field(min_length=1, max_length=120), BeforeValidator(clean_text)]
Url = Annotated[str, Field(min_length=1, max_length=MAX_URL_LENGTH), BeforeValidator(clean_text)]
Temperature = Annotated[float, Field(ge=0, le=2)]
MaxTokens = Annotated[int, Field(ge=1, le=10_000_000)]
ModelName = Annotated[str, Field(max_length=200), BeforeValidator(clean_text)]


class StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SkillDefinition(StrictModel):
    """A skill (A2A 1.0 §4.4.5). Its default id is made from its name."""

    id: Line = ""
    name: Line
    description: Text
    tags: list[Line] = Field(["general"], min_length=1)
    examples: list[Line] = []

    @property
    def wire(self) -> JSON:
        skill = {"id": self.id, "name": self.name, "description": self.description, "tags": self.tags}
        return skill | ({"examples": self.examples} if self.examples else {})

    @model_validator(mode="before")
    @classmethod
    def _with_id(cls, given: Any) -> Any:
        if isinstance(given, dict) and not given.get("id") and isinstance(given.get("name"), str):
            return {**given, "id": slugify(given["name"]) or "skill"}
        return given


class ToolServer(StrictModel):
    """An MCP server for the agent. `ToolSecret` has the value of `header`."""

    url: Url
    header: Annotated[str, Field(pattern=HEADER_NAME)] = "Authorization"


class Definition(StrictModel):
    """An agent without code: its card and the settings of its model.

    Attributes:
        model: the provider's name of it, or `NAME@CONNECTION`; empty: the installation's default.
        temperature, max_tokens: of one answer; None is the model's default.
        max_steps: model calls in one turn.
        tools: names of registered functions (AGENT_TOOLS).
        agents: slugs of agents that it may ask.
    """

    name: Name
    description: Text
    instructions: Text
    model: ModelName = ""
    temperature: Temperature | None = None
    max_tokens: MaxTokens | None = None
    max_steps: int = Field(10, ge=1, le=MAX_STEPS)
    tools: list[Line] = Field([], max_length=100)
    mcp_servers: list[ToolServer] = Field([], max_length=20)
    agents: list[Line] = Field([], max_length=100)
    skills: list[SkillDefinition] = Field([], max_length=100)
    input_modes: list[Line] = Field(list(MODEL_INPUTS), min_length=1)
    output_modes: list[Line] = Field(["text/plain"], min_length=1)
    streaming: bool = True

    @classmethod
    def read(cls, content: Any) -> Self:
        """Parse JSON. Raises ValidationError with a sentence for each field."""
        if isinstance(content, dict):
            content = {name: value for name, value in content.items() if (name, value) != ("kind", Agent.Kind.MODEL)}
        try:
            return cls.model_validate(content)
        except pydantic.ValidationError as error:
            raise ValidationError(field_errors(error)) from None

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """Raises ValidationError."""
        if len(text.encode()) > MAX_FILE_BYTES:
            raise ValidationError({"file": f"It is larger than {MAX_FILE_BYTES:,} bytes."})
        try:
            content = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
            # The last two come from values such as `!!bool maybe`.
            where = f" (line {mark.line + 1})" if (mark := getattr(error, "problem_mark", None)) else ""
            raise ValidationError({"file": f"This is not valid YAML{where}."}) from None
        if not isinstance(content, dict):
            raise ValidationError({"file": "Write a mapping with name, description and instructions."})
        return cls.read(content)

    @property
    def content(self) -> JSON:
        """The content of a version."""
        return {"kind": Agent.Kind.MODEL.value, **self.model_dump()}

    @property
    def _general_skill(self) -> SkillDefinition:
        return SkillDefinition(name=self.name, description=self.description, tags=["general"])

    @property
    def stated(self) -> JSON:
        """The fields of Agent."""
        return {
            "kind": Agent.Kind.MODEL,
            "handler": "",
            "name": self.name,
            "description": self.description,
            "skills": [skill.wire for skill in self.skills or [self._general_skill]],
            "input_modes": list(self.input_modes),
            "output_modes": list(self.output_modes),
            "tools": list(self.tools),
        }


def as_yaml(content: JSON) -> str:
    if writer := added["definition_writers", content.get("kind", "")]:
        written: str = writer(content)
        return written
    order = {name: place for place, name in enumerate(("kind", *Definition.model_fields))}
    names = sorted(content, key=lambda name: order.get(name, len(order)))
    filled = {name: content[name] for name in names if content[name] not in (None, "", [], {})}
    return yaml.dump(filled, Dumper=_BlockDumper, sort_keys=False, allow_unicode=True, width=100)


class _BlockDumper(yaml.SafeDumper):
    """Writes long texts as blocks."""


def _as_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_BlockDumper.add_representer(str, _as_block)


def check_definition(definition: Definition, slug: str) -> None:
    """Raises ValidationError, with a sentence for each field, if the agent could not work."""
    problems = {
        "model": _problem_of_model(definition.model),
        "tools": _problem_of_tools(definition.tools),
        "agents": _problem_of_agents(definition.agents, slug),
        "mcp_servers": _problem_of_servers([server.url for server in definition.mcp_servers]),
        "skills": _problem_of_duplicates("Two skills have the id", [skill.id for skill in definition.skills]),
    }
    if found := {field: problem for field, problem in problems.items() if problem}:
        raise ValidationError(found)


def _problem_of_model(name: str) -> str:
    named = re.fullmatch(current.NAMED, name)
    known = current.snapshot()
    if named is None or known.endpoint(named["connection"]):
        return ""
    there = ", ".join(one.slug for one in known.endpoints) or "there is none"
    return f"There is no model connection {named['connection']}. Write MODEL@CONNECTION with one of these: {there}."


def _problem_of_tools(names: list[str]) -> str:
    if not names:
        return ""
    try:
        known = registered_tools()
    except HandlerError as error:
        return str(error)
    if unknown := [name for name in names if name not in known]:
        return f"There is no tool {', '.join(unknown)}. Available tools: {', '.join(known) or 'none'}."
    return _problem_of_duplicates("Listed twice:", names)


def _problem_of_agents(slugs: list[str], slug: str) -> str:
    if slug in slugs:
        return "An agent cannot call itself. Choose others."
    known = set(Agent.objects.filter(slug__in=slugs).values_list("slug", flat=True))
    if unknown := [one for one in slugs if one not in known]:
        return f"There is no agent {', '.join(unknown)}. Write the slugs of agents that are registered here."
    return _problem_of_duplicates("Listed twice:", slugs)


def _problem_of_servers(urls: list[str]) -> str:
    for url in urls:
        try:
            outbound.guard().check(url)  # calls resolve the name
        except outbound.Forbidden as refusal:
            return f"{url}: {refusal}"
    return _problem_of_duplicates("Listed twice:", urls)


def _problem_of_duplicates(sentence: str, names: list[str]) -> str:
    twice = sorted({name for name in names if names.count(name) > 1})
    return f"{sentence} {', '.join(twice)}." if twice else ""


def field_errors(error: pydantic.ValidationError) -> dict[str, list[str]]:
    """By field, each with its path."""
    found: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False):
        field, *inner = [str(step) for step in problem["loc"]] or ["file"]
        where = f"{'.'.join(inner)}: " if inner else ""
        is_empty = problem["type"] == "string_too_short"
        said = "This cannot be empty" if is_empty else problem["msg"].removeprefix("Value error, ").rstrip(".")
        found.setdefault(field, []).append(f"{where}{said}.")
    return found


def save_tool_secrets(agent: Agent, servers: Sequence[dict[str, Any]]) -> None:
    """Save the form's secrets: new, unchanged or none. Deletes those of other URLs."""
    staying = [server["url"].strip() for server in servers if not server["forget"] or server["secret"]]
    agent.tool_secrets.exclude(url__in=staying).delete()
    for server in servers:
        if server["secret"]:
            ToolSecret.objects.update_or_create(
                agent=agent, url=server["url"].strip(), defaults={"secret": server["secret"]}
            )


def tool_server_headers(agent: Agent, definition: Definition) -> dict[str, dict[str, str]]:
    """The header for each MCP server, by URL. Raises CannotDecrypt."""
    if not definition.mcp_servers:
        return {}
    kept = dict(ToolSecret.objects.filter(agent=agent).values_list("url", "secret"))
    urls = [server.url for server in definition.mcp_servers]
    shared = {one.url: {one.header: one.secret} for one in SharedToolServer.objects.filter(url__in=urls) if one.secret}
    return {
        server.url: {server.header: kept[server.url]} if server.url in kept else shared.get(server.url, {})
        for server in definition.mcp_servers
    }
