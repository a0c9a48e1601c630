"""Fixtures for the tests of remote agents."""

import pytest
from django.conf import settings

from parley import outbound
from tests.remote.card_server import serving


@pytest.fixture
def outward():
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure(settings.OUTBOUND_ALLOW)


@pytest.fixture
def cards_at(outward):
    with serving() as server:
        yield server
