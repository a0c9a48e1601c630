"""Agents registered by class name."""

import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import db as database
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from tests.engine import calling_agents
from tests.engine.calling_agents import EXECUTED, GATES


@pytest.fixture
def agent_at(db: None) -> Callable[..., Awaitable[Agent]]:
    async def register(path: str, **policies: Any) -> Agent:
        slug = path.rpartition(":")[2].lower().replace("_", "-")
        return await database.run(register_hosted, slug, path, **policies)

    return register


@pytest.fixture
def agent(db: None) -> Callable[..., Awaitable[Agent]]:
    async def register(name: str, **policies: Any) -> Agent:
        return await database.run(register_hosted, name.lower(), f"tests.engine.agents:{name}", **policies)

    return register


@pytest.fixture
def cast(db: None) -> Iterator[dict[str, Agent]]:
    """The agents of `calling_agents` by slug, with closed gates."""
    EXECUTED.clear()
    GATES.update({name: threading.Event() for name in "abc"})
    kinds = [
        name
        for name, kind in vars(calling_agents).items()
        if isinstance(kind, type) and kind.__module__ == calling_agents.__name__
    ]
    yield {name.lower(): _registered(name) for name in kinds}
    for gate in GATES.values():
        gate.set()


def _registered(name: str) -> Agent:
    return register_hosted(name.lower(), f"{calling_agents.__name__}:{name}", access=Agent.Access.PUBLIC)
