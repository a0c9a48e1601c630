"""The world of the matrix, the same for each module: what the tests call commits."""

from __future__ import annotations

import pytest
from django.test import override_settings

from tests import emptying
from tests.isolation import world
from tests.isolation.asking import callers, end_requests, owner_of_theirs


@pytest.fixture(scope="module")
def db(django_db_setup, django_db_blocker):
    """The database of all tests of a module."""
    with django_db_blocker.unblock():
        yield
        end_requests()
        emptying.empty()


@pytest.fixture(scope="module")
def two(db):
    return world.once()


@pytest.fixture(scope="module")
def everybody(two):
    return callers(two)


@pytest.fixture(scope="module")
def their_owner(two):
    """Changes what is theirs."""
    return owner_of_theirs(two)


@pytest.fixture(autouse=True, scope="module")
def _unhurried():
    """No caller is refused for asking often."""
    often = 1_000_000
    names = ("ACTS_PER_MINUTE", "KEY_CHANGES_PER_MINUTE", "LEAK_REPORTS_PER_MINUTE", "SHARED_VIEWS_PER_MINUTE")
    more = ("FORKS_PER_MINUTE", "OAUTH_REQUESTS_PER_MINUTE", "ANONYMOUS_REQUESTS_PER_MINUTE")
    with override_settings(**dict.fromkeys((*names, *more), often)):
        yield


@pytest.fixture
def theirs_unchanged(two):
    """Nothing in their workspace changes meanwhile."""
    two.watch.changed()
    yield
    assert two.watch.changed() == []
