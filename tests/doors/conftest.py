"""Official clients of other protocols at this process's application."""

import httpx2
import pytest
from openai import AsyncOpenAI

from apps.accounts.models import ApiKey
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from parley.asgi import application
from tests.doors import agents


@pytest.fixture
def speaking(db):
    agents.STARTED.clear()
    agents.STOPPED.clear()
    return register_hosted("speaking", "tests.doors.agents:Speaking", access=Agent.Access.AUTHENTICATED)


@pytest.fixture
def greeting(db):
    return register_hosted("greeting", "tests.doors.agents:Greeting", access=Agent.Access.AUTHENTICATED)


@pytest.fixture
def modeled(db):
    return register_hosted("modeled", "tests.doors.agents:Modeled", access=Agent.Access.AUTHENTICATED)


@pytest.fixture
def ada_key(ada):
    return ApiKey.issue(ada, "test")[1]


@pytest.fixture
def bob_key(bob):
    return ApiKey.issue(bob, "test")[1]


@pytest.fixture
async def openai_for():
    """OpenAI's client with a key of ours; it does not send again."""
    transport = httpx2.ASGITransport(app=application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        yield lambda key: AsyncOpenAI(api_key=key, base_url="http://localhost/v1", http_client=http, max_retries=0)


@pytest.fixture
def client(openai_for, ada_key):
    return openai_for(ada_key)
