"""Callers of the A2A endpoint: Ada, Bob, and anybody without a key."""

from collections.abc import Callable, Iterator

import pytest

from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from tests.a2a import agents
from tests.a2a.calling import Caller
from tests.a2a.talking import Talking, client
from tests.stack import Stack

At = Callable[..., Caller]


@pytest.fixture
def ada_key(ada: User) -> str:
    return ApiKey.issue(ada, "test")[1]


@pytest.fixture
def bob_key(bob: User) -> str:
    return ApiKey.issue(bob, "test")[1]


@pytest.fixture
def ada_at(ada_key: str) -> At:
    """Ada as a caller of the agent that is named."""
    return lambda slug, **options: Caller(slug, ada_key, **options)


@pytest.fixture
def bob_at(bob_key: str) -> At:
    return lambda slug, **options: Caller(slug, bob_key, **options)


@pytest.fixture
def anybody_at() -> At:
    return lambda slug, **options: Caller(slug, **options)


@pytest.fixture
def hello(db: None) -> Agent:
    return register_hosted("hello", "apps.showcase.agents.hello:Hello")


@pytest.fixture
def public_echo(db: None) -> Agent:
    return register_hosted("open-echo", "apps.showcase.agents.echo:Echo", access=Agent.Access.PUBLIC)


@pytest.fixture
def quiet(db: None) -> Agent:
    """An agent whose card declares neither streaming nor webhooks."""
    agent = register_hosted("quiet", "apps.showcase.agents.echo:Echo")
    agent.capabilities = {"streaming": False, "pushNotifications": False}
    agent.save()
    return agent


@pytest.fixture
def talk(server: Stack) -> Talking:
    """The SDK's client as the showcase's demo user, at the agent that is named, on a server with real workers."""
    return lambda slug, key=server.demo_key, **options: client(server.url, slug, key, **options)


@pytest.fixture
def stepping(db: None) -> Iterator[Agent]:
    agents.steps.reset()
    yield register_hosted("stepping", "tests.a2a.agents:Stepping")
    agents.steps.allow(1000)


@pytest.fixture
def asking(db: None) -> Agent:
    return register_hosted("asking", "tests.a2a.agents:Asking")


@pytest.fixture
def greeting(db: None) -> Agent:
    return register_hosted("greeting", "tests.a2a.agents:Greeting")
