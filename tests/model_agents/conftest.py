"""A language model's endpoint on this machine, set in the settings; tool servers on it that may be called."""

import pytest

from parley import outbound
from tests.model_agents import endpoint as endpoints

KEY = "sk-test-e7a1c0ffee"


@pytest.fixture
def endpoint(settings):
    with endpoints.running() as running:
        settings.LLM_MODEL, settings.LLM_BASE_URL, settings.LLM_API_KEY = "test-model", running.url, KEY
        yield running


@pytest.fixture
def opened(settings):
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure(settings.OUTBOUND_ALLOW)
