"""An endpoint for language models on this machine, and an operator's browser."""

import pytest

from apps.accounts.models import User
from tests.model_agents import endpoint as endpoints
from tests.model_agents.endpoint import says


@pytest.fixture
def endpoint():
    """It is in no setting."""
    with endpoints.running() as running:
        running.models, running.usual = ["small", "large"], says("Good ", "day.")
        yield running


@pytest.fixture
def operator(client, db):
    client.force_login(User.objects.create_superuser("op@example.org", "let me in"))
    return client
