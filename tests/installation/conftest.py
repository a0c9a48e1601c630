"""An endpoint for language models on this machine, and an operator's browser."""

from collections.abc import Iterator

import pytest
from django.test import Client

from apps.accounts.models import User
from tests.model_agents import endpoint as endpoints
from tests.model_agents.endpoint import Endpoint, says


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """It is in no setting."""
    with endpoints.running() as running:
        running.models, running.usual = ["small", "large"], says("Good ", "day.")
        yield running


@pytest.fixture
def operator(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_superuser("op@example.org", "let me in"))
    return client
