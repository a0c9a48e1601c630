"""People, browsers and conversations for tests of pages."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.test import AsyncClient, Client

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine.accept import Receipt
from tests.web import telling


@pytest.fixture
def browser_of() -> Callable[[User], Client]:
    def opened(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return opened


@pytest.fixture
def ada_browser(ada: User, browser_of: Callable[[User], Client]) -> Client:
    return browser_of(ada)


@pytest.fixture
def bob_browser(bob: User, browser_of: Callable[[User], Client]) -> Client:
    return browser_of(bob)


@pytest.fixture
async def ada_at_work(ada: User) -> AsyncClient:
    client = AsyncClient()
    await client.aforce_login(ada)
    return client


@pytest.fixture
def report(db: None) -> Agent:
    return register_hosted("report", "examples.report.agent:Report")


@pytest.fixture
def hello(db: None) -> Agent:
    return register_hosted("hello", "examples.agents.hello:Hello")


@pytest.fixture
def finished(ada: User, echo: Agent) -> Receipt:
    return telling.finished(
        ada, echo, {"notes.md": telling.text("# Notes\n", "text/markdown"), "dot.png": telling.picture()}
    )


@pytest.fixture
def asked(ada: User, report: Agent) -> Receipt:
    return telling.asked(ada, report, {"name": "format", "schema": telling.FORMAT})


@pytest.fixture
def new_id() -> Callable[[], str]:
    return lambda: str(uuid.uuid4())
