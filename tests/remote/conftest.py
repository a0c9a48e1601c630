"""Fixtures for the tests of remote agents."""

from collections.abc import Iterator

import pytest
from django.conf import settings

from parley import outbound
from tests.remote.card_server import CardServer, serving


@pytest.fixture
def outward() -> Iterator[None]:
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure(settings.OUTBOUND_ALLOW)


@pytest.fixture
def cards_at(outward: None) -> Iterator[CardServer]:
    with serving() as server:
        yield server
