"""Resolves language models: by name through the host, the author's own, or scripted.

A scripted model is an author's function, usable offline; its name is `scripted`. The model library is imported in a
thread when a model is first asked.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from agentkit.errors import AgentFailure
from agentkit.llm.scripting import Respond

if TYPE_CHECKING:
    from pydantic_ai.models import Model


Resolve = Callable[[str | None], "Model | Awaitable[Model]"]
"""Gives the model of a name, or the default one; raises `NoModel`. It is made for one use, and closed after it."""

type AnyModel = "str | Model | Scripted | None"
"""A name (None: the default), a model of pydantic-ai, which its owner closes, or a scripted one."""

NOT_CONFIGURED = (
    "No language model is configured. Set LLM_MODEL, and LLM_BASE_URL or LLM_API_KEY, to the model that is to answer."
)


class NoModel(AgentFailure):
    """There is no language model. The text says what to set."""

    def __init__(self, message: str = NOT_CONFIGURED) -> None:
        super().__init__(message, "no_model")


def use_models(resolve: Resolve | None) -> None:
    """For hosts: set how a name becomes a model. None restores the default for scripts, the environment."""
    global _resolve
    _resolve = resolve or from_environment


def from_environment(name: str | None) -> Model:
    """The named model, or `LLM_MODEL`, at `LLM_BASE_URL` with `LLM_API_KEY`. Raises NoModel."""
    return endpoint_model(
        name or os.environ.get("LLM_MODEL", ""),
        os.environ.get("LLM_BASE_URL", ""),
        os.environ.get("LLM_API_KEY", ""),
    )


def endpoint_model(name: str, base_url: str, api_key: str) -> Model:
    """A model of OpenAI's API or a compatible endpoint. Raises NoModel if something is missing."""
    check_endpoint(name, base_url, api_key)
    from agentkit.llm.endpoints import openai_model

    return openai_model(name, base_url, api_key)


def check_endpoint(name: str, base_url: str, api_key: str) -> None:
    """Raises NoModel unless these values suffice to reach a model."""
    if not name:
        raise NoModel
    if not base_url and not api_key:
        raise NoModel(
            f"The language model {name} cannot be reached. Set LLM_API_KEY for OpenAI's own, or LLM_BASE_URL."
        )


async def has_model() -> bool:
    """Is there a default language model?"""
    try:
        made = await _resolved(None)
    except NoModel:
        return False
    async with made:
        return True


@asynccontextmanager
async def open_model(wanted: AnyModel) -> AsyncIterator[Model]:
    """The model for one use, closed at the end. Raises NoModel."""
    if isinstance(wanted, Scripted):
        made = await _scripted_model(wanted)
    elif wanted is None or isinstance(wanted, str):
        made = await _resolved(wanted)
    else:
        yield wanted
        return
    async with made:
        yield made


async def _resolved(name: str | None) -> Model:
    if inspect.iscoroutinefunction(_resolve):
        made: Model = await _resolve(name)
        return made
    # In a thread: making the first one may import the model library.
    return cast("Model", await asyncio.to_thread(_resolve, name))


async def _scripted_model(wanted: Scripted) -> Model:
    if wanted.unless_configured:
        with suppress(NoModel):
            return await _resolved(None)
    return wanted.model


_resolve: Resolve = from_environment


SCRIPTED = "scripted"


@dataclass(frozen=True)
class Scripted:
    """The result of `scripted`."""

    respond: Respond
    label: str
    unless_configured: bool

    @cached_property
    def model(self) -> Model:
        """The model library's form."""
        from agentkit.llm.endpoints import function_model

        return function_model(self.label, self.respond)


def scripted(respond: Respond, *, name: str = "", unless_configured: bool = False) -> Scripted:
    """An offline model for `model=`: `respond(asked)` returns text, one or several `UseTool`, or a typed value.

    Usage and metadata call it `scripted` or `scripted:<name>`.

    Args:
        unless_configured: use the default language model instead, if there is one.
    """
    return Scripted(respond, f"{SCRIPTED}:{name}" if name else SCRIPTED, unless_configured)


def none(command: str) -> bool:
    """May this command line start a tool server? Never."""
    return False


def no_check(schema: Any, value: Any) -> str:
    """What of a value does not fit a JSON Schema? Nothing that is known."""
    return ""


def no_preparation() -> None:
    """The model library is used as it is."""


@dataclass(frozen=True)
class Surroundings:
    """The host's services for language models. By default tools run in the event loop's threads, and no programs start.

    Attributes:
        http_client: makes an `httpx2.AsyncClient` from its keyword arguments.
        may_start: may this command line start a tool server?
        shows_apps: are pages of the tool server of this URL, or command line, shown (see `mcp_apps`)?
        threads: run tools that are not async.
        misfit: what of a value does not fit a JSON Schema, as a sentence; "" if it fits.
        prepare: called when the model library was imported, perhaps several times.
    """

    http_client: Callable[..., Any] | None = None
    may_start: Callable[[str], bool] = none
    shows_apps: Callable[[str], bool] = none
    threads: Executor | None = None
    misfit: Callable[[Any, Any], str] = no_check
    prepare: Callable[[], None] = no_preparation


def use_surroundings(given: Surroundings) -> None:
    """For hosts: set the services for language models. `Surroundings()` is the default."""
    global _surroundings
    _surroundings = given


def surroundings() -> Surroundings:
    return _surroundings


_surroundings = Surroundings()


_imported: set[str] = set()  # not `sys.modules`, which also has unfinished imports


async def import_in_thread(*modules: str) -> None:
    for module in modules:
        if module not in _imported:
            await asyncio.to_thread(_import, module)
            _imported.add(module)


def _import(module: str) -> None:
    importlib.import_module(module)
    _surroundings.prepare()
