"""What the tests of remote agents share."""

from collections.abc import Iterator

import pytest
from django.conf import settings

import outbound


@pytest.fixture
def outward() -> Iterator[None]:
    """This machine itself may be called."""
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure(settings.OUTBOUND_ALLOW)
