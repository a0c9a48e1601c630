"""Agents by class, path or name, and the runs that workers are told of."""

import threading
from typing import Any

import pytest

from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.credentials import requests
from apps.engine import accept, activity, claim, jobs, send, worker
from apps.engine.turns import handlers, isolation, turn
from parley import db as database
from tests.engine import calling_agents
from tests.engine.calling_agents import EXECUTED, GATES
from tests.payments import facilitating


@pytest.fixture
def agent_at(db, monkeypatch):
    """Register what a path names, what `tests.engine.agents` has by that name, or a handler itself."""

    async def register(handler: Any, **policies: Any) -> Agent:
        if not isinstance(handler, str):
            monkeypatch.setitem(globals(), handler.__name__, handler)
            handlers.forget()
            handler = f"{__name__}:{handler.__name__}"
        path = handler if ":" in handler else f"tests.engine.agents:{handler}"
        slug = path.rpartition(":")[2].lower().replace("_", "-")
        return await database.run(register_hosted, slug, path, **policies)

    return register


@pytest.fixture
def agent(agent_at):
    return agent_at


class Published(list[Any]):
    """The event is set by each."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Event()

    def append(self, run: Any) -> None:
        super().append(run)
        self.came.set()


@pytest.fixture
def published(monkeypatch):
    """The runs of which workers were told; no worker is."""
    runs = Published()
    for module in (accept, activity, claim, isolation, jobs, requests, send, turn, worker):
        monkeypatch.setattr(module, "publish", runs.append)
    return runs


@pytest.fixture
def cast(db):
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


@pytest.fixture
def facilitator(settings):
    """A facilitator and a wallet of x402, without a chain."""
    facilitating.SIGNED.clear()
    settings.PAYMENT_WALLETS = {"test": facilitating.WALLET}
    with facilitating.facilitating() as server:
        settings.PAYMENTS_FACILITATOR = server.url
        yield server


@pytest.fixture
def seller(db):
    return register_hosted("selling", "tests.payments.facilitating:Selling")
