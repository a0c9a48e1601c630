"""One of everything for two people. `db` is that of a module, as in `tests/isolation`: what the tests call commits."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.accounts.models import Membership
from apps.accounts.permissions import Role
from apps.agents.models import Agent
from apps.installation.models import Operation
from tests.isolation import world
from tests.isolation.conftest import _unhurried, db  # noqa: F401 fixtures
from tests.isolation.world import Place


@pytest.fixture(scope="module")
def two(db):  # noqa: F811
    return world.once()


@pytest.fixture
def ours(two):
    yield two.ours
    Agent.objects.update(is_enabled=True, activity="active")
    Operation.objects.update(activity="active")
    Membership.objects.filter(user=two.ours.owner).update(role=Role.OWNER)


@pytest.fixture
def browser(ours):
    return signed_in(ours)


@pytest.fixture
def strange_browser(two):
    return signed_in(two.theirs)


def signed_in(place: Place) -> Client:
    client = Client()
    client.force_login(place.owner)
    return client
