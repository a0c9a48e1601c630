"""Agents of the runtime's tests, registered by the name of their class."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import bridge
from apps.agents.models import Agent
from apps.agents.registration import register_hosted


@pytest.fixture
def agent_at(db: None) -> Callable[..., Awaitable[Agent]]:
    """Registers the agent of a dotted path."""

    async def register(path: str, **policies: Any) -> Agent:
        slug = path.rpartition(":")[2].lower().replace("_", "-")
        return await bridge.run(register_hosted, slug, path, **policies)

    return register


@pytest.fixture
def agent(db: None) -> Callable[..., Awaitable[Agent]]:
    async def register(name: str, **policies: Any) -> Agent:
        return await bridge.run(register_hosted, name.lower(), f"tests.runtime.agents:{name}", **policies)

    return register
