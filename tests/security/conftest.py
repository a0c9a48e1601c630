"""Two people with keys, and an agent that tells what it was told before."""

import pytest

from apps.accounts.models import ApiKey
from apps.agents.models import Agent
from apps.agents.registration import register_hosted


@pytest.fixture
def ada_key(ada):
    return ApiKey.issue(ada, "test")[1]


@pytest.fixture
def bob_key(bob):
    return ApiKey.issue(bob, "test")[1]


@pytest.fixture
def speaking(db):
    agent = register_hosted("speaking", "tests.doors.agents:Speaking", access=Agent.Access.AUTHENTICATED)
    Agent.objects.update(mcp_tools="agent")
    return agent
