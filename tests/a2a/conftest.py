"""A2A callers: Ada, Bob, and one without a key."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group

from apps.accounts.models import ApiKey
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from parley.asgi import application
from tests.a2a import agents
from tests.a2a.calling import Caller
from tests.a2a.old_calling import OldCaller, OldResource
from tests.a2a.resting import Resource
from tests.a2a.strictness import strict_clients, strict_operations
from tests.remote.scripted import serving_app

ECHO = "examples.agents.echo:Echo"

At = Callable[..., Caller]


@pytest.fixture(autouse=True)
def answers_are_read_strictly():
    with strict_operations(), strict_clients():
        yield


@pytest.fixture
def ada_key(ada):
    return ApiKey.issue(ada, "test")[1]


@pytest.fixture
def bob_key(bob):
    return ApiKey.issue(bob, "test")[1]


@pytest.fixture
def ada_at(ada_key):
    return lambda slug, **options: Caller(slug, ada_key, **options)


@pytest.fixture
def ada_rests(ada_key):
    return lambda slug, **options: Resource(slug, ada_key, **options)


@pytest.fixture
def old_at(ada_key):
    return lambda slug, **options: OldCaller(slug, ada_key, **options)


@pytest.fixture
def old_rests(ada_key):
    return lambda slug, **options: OldResource(slug, ada_key, **options)


@pytest.fixture
def bob_at(bob_key):
    return lambda slug, **options: Caller(slug, bob_key, **options)


@pytest.fixture
def anybody_at():
    return lambda slug, **options: Caller(slug, **options)


def hosted(slug: str, handler: str = ECHO, **fields: Any) -> Callable[[None], Agent]:
    """A fixture: an agent with this handler."""

    def agent(db: None) -> Agent:
        return register_hosted(slug, handler, **fields)

    return pytest.fixture(agent)


hello = hosted("hello", "examples.agents.hello:Hello")
public_echo = hosted("open-echo", access=Agent.Access.PUBLIC)
asking = hosted("asking", "tests.a2a.agents:Asking")
greeting = hosted("greeting", "tests.a2a.agents:Greeting")


@pytest.fixture
def club(ada):
    """An agent for a group of Ada's."""
    group = Group.objects.create(name="club")
    ada.groups.add(group)
    agent = register_hosted("club", ECHO, access=Agent.Access.GROUPS)
    agent.groups.add(group)
    return agent


@pytest.fixture
def quiet(db):
    """An agent without streaming and webhooks."""
    agent = register_hosted("quiet", ECHO)
    agent.capabilities = {"streaming": False, "pushNotifications": False}
    agent.save()
    return agent


@pytest.fixture
def served(worker, settings):
    """The address of a web server with this process's application and workers."""
    with serving_app(application) as url:
        settings.PUBLIC_BASE_URL = url.rstrip("/")
        yield settings.PUBLIC_BASE_URL


@pytest.fixture
def stepping(db):
    agents.steps.reset()
    yield register_hosted("stepping", "tests.a2a.agents:Stepping")
    agents.steps.allow(1000)
