"""Which language model answers: by name, as the host resolves it, or one that the author brings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from agentkit.llm.scripting import Scripted
from agentkit.outcomes import AgentFailure

if TYPE_CHECKING:
    from pydantic_ai.models import Model

Resolve = Callable[[str | None], "Model"]
"""Gives the model of a name, or the default one; raises `NoModel`. It is made for one use, and closed after it."""

type AnyModel = "str | Model | Scripted | None"
"""A name (None: the default), a model of pydantic-ai, which its owner closes, or a scripted one."""

UNSET = (
    "No language model is configured. Set LLM_MODEL, and LLM_BASE_URL or LLM_API_KEY, to the model that is to answer."
)


class NoModel(AgentFailure):
    """There is no language model to ask; the text says what to set."""

    def __init__(self, message: str = UNSET) -> None:
        super().__init__(message, "no_model")


def use_models(resolve: Resolve | None) -> None:
    """Say, as a host, how a name becomes a model; None for what scripts have: the environment."""
    global _resolve
    _resolve = resolve or from_environment


def from_environment(name: str | None) -> Model:
    """The model of a name, or that of `LLM_MODEL`, at `LLM_BASE_URL` with `LLM_API_KEY`. Raises NoModel."""
    return endpoint_model(
        name or os.environ.get("LLM_MODEL", ""),
        os.environ.get("LLM_BASE_URL", ""),
        os.environ.get("LLM_API_KEY", ""),
    )


def endpoint_model(name: str, base_url: str, api_key: str) -> Model:
    """A model of OpenAI's API, or of another endpoint that speaks it. Raises NoModel where something is lacking."""
    require(name, base_url, api_key)
    from agentkit.llm.endpoints import openai_model

    return openai_model(name, base_url, api_key)


def require(name: str, base_url: str, api_key: str) -> None:
    """Raises NoModel unless this is enough to reach a model."""
    if not name:
        raise NoModel
    if not base_url and not api_key:
        raise NoModel(
            f"The language model {name} cannot be reached. Set LLM_API_KEY for OpenAI's own, or LLM_BASE_URL."
        )


async def has_model() -> bool:
    """Is there a default language model?"""
    try:
        # In a thread: making the first one may import the model library.
        made = await asyncio.to_thread(_resolve, None)
    except NoModel:
        return False
    async with made:  # for this look alone
        return True


@asynccontextmanager
async def lent(wanted: AnyModel) -> AsyncIterator[Model]:
    """The model for one use; what was made for it is closed at its end. Raises NoModel."""
    if isinstance(wanted, Scripted):
        made = _scripted(wanted)
    elif wanted is None or isinstance(wanted, str):
        made = _resolve(wanted)
    else:
        yield wanted
        return
    async with made:
        yield made


def _scripted(wanted: Scripted) -> Model:
    if wanted.unless_configured:
        with suppress(NoModel):
            return _resolve(None)
    return wanted.model


_resolve: Resolve = from_environment
