"""The world of the matrix, made once for each module: what the tests call commits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from apps.agents.registration import register_hosted
from tests import emptying
from tests.isolation import world
from tests.isolation.asking import Caller, callers, end_requests, owner_of_theirs
from tests.isolation.world import World


@pytest.fixture(scope="module")
def db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The database of all tests of a module."""
    with django_db_blocker.unblock():
        yield
        end_requests()
        emptying.empty()


@pytest.fixture(scope="module")
def two(db: None) -> World:
    return world.make(register_hosted("echo", world.ECHO, mcp_tools="agent"))


@pytest.fixture(scope="module")
def everybody(two: World) -> list[Caller]:
    return callers(two)


@pytest.fixture(scope="module")
def owner(two: World, watched: list[str]) -> Caller:
    """Signs in, which is a change of theirs."""
    assert_unchanged(two, watched)
    return owner_of_theirs(two)


@pytest.fixture
def their_owner(two: World, owner: Caller, watched: list[str]) -> Caller:
    """Changes what is theirs."""
    assert_unchanged(two, watched)
    two.watch.before = None
    return owner


@pytest.fixture(autouse=True, scope="module")
def _unhurried() -> Iterator[None]:
    """No caller is refused for asking often."""
    often = 1_000_000
    names = ("ACTS_PER_MINUTE", "KEY_CHANGES_PER_MINUTE", "LEAK_REPORTS_PER_MINUTE", "SHARED_VIEWS_PER_MINUTE")
    with override_settings(**dict.fromkeys((*names, "FORKS_PER_MINUTE", "OAUTH_REQUESTS_PER_MINUTE"), often)):
        yield


AT_ONCE = 12
"""How many tests are watched together: looking at all that is theirs takes as long as a test."""


@pytest.fixture(scope="module")
def watched(two: World) -> Iterator[list[str]]:
    """The tests since what is theirs was looked at last."""
    names: list[str] = []
    yield names
    assert_unchanged(two, names)


def assert_unchanged(two: World, names: list[str]) -> None:
    changed = two.watch.changed() if names else []
    assert changed == [], f"One of these tests, alone, tells more: {names}"
    names.clear()


@pytest.fixture
def theirs_unchanged(two: World, watched: list[str], request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing in their workspace changes meanwhile. Before their owner changes it, it is looked at."""
    if two.watch.before is None:
        two.watch.changed()
    watched.append(request.node.name)
    yield
    if len(watched) >= AT_ONCE:
        assert_unchanged(two, watched)
