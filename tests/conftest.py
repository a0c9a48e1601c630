"""The small fixed cast of all tests: Ada and Bob, a few agents, and the threads that their work needs."""

import gc
import uuid
from collections.abc import Callable, Generator, Iterator
from typing import Any

import hypothesis
import pytest
from celery import current_app
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase, override_settings
from kombu import Queue
from pytest_django import DjangoDbBlocker

import bridge
from apps.accounts.models import User
from apps.agents import signing_keys
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.gateway import breaker
from apps.runtime import embedded
from tests import emptying, sharing, stack, strictness
from tests.chromium import CHROMIUM
from tests.type_checking import TypeChecked, type_checking

STRICT_SKIPS = not settings.EMBEDDED

# An example may take as long as a busy machine needs: what ends a test that hangs is its timeout.
UNTIMED = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("unhurried", parent=hypothesis.settings.default, **UNTIMED)
hypothesis.settings.load_profile("unhurried")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """On the services profile nothing is skipped: a skip there is a gap."""
    report = yield
    if STRICT_SKIPS and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped on the services profile"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: it is searched for garbage neither while it grows nor ever after."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with a reason, what this machine or this profile lacks."""
    for item in items:
        services = item.get_closest_marker("services")
        if settings.EMBEDDED and services and services.kwargs.get("only"):
            item.add_marker(pytest.mark.skip(reason="needs PostgreSQL, a broker and Redis: make test-services"))
        if not CHROMIUM and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="needs Chromium: apt-get install chromium"))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Whoever began the run ends what its workers shared."""
    if not hasattr(session.config, "workerinput"):
        stack.forget_patterns()


def pytest_xdist_auto_num_workers() -> int:
    return sharing.workers()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> sharing.Sharing:
    return sharing.Sharing(config, log)


@pytest.fixture(scope="session", autouse=True)
def _own_queue() -> None:
    """Test runs that share a broker do not take each other's wake-ups."""
    name = settings.INSTALLATION
    current_app.conf.task_queues = [Queue(name, routing_key=name, expires=300)]


@pytest.fixture(scope="session", autouse=True)
def _quickly_emptied() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", emptying.empty)
        yield


@pytest.fixture(scope="session", autouse=True)
def _bridge_ends_with_the_tests(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    yield
    bridge.close()
    if connection.vendor == "postgresql":
        with django_db_blocker.unblock():
            emptying.end_other_connections()


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_collected_or_hashed_for_long() -> Iterator[None]:
    """In the test's process static files are those of the sources, and a password's hash takes no third of a second."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    quick = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    with override_settings(STORAGES={**settings.STORAGES, "staticfiles": plain}, PASSWORD_HASHERS=quick):
        yield


@pytest.fixture(autouse=True)
def _what_is_remembered_is_of_the_test() -> None:
    """A process goes on with what it read for some seconds; the database of the next test knows nothing of it."""
    signing_keys.forget()
    breaker.forget()


@pytest.fixture
def worker(transactional_db: None) -> Iterator[None]:
    """A real Celery worker with its beat, in threads of the test's process."""
    with embedded.worker(grace=1):
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[stack.Stack]:
    """The whole of Parley as processes of their own, shared by all tests that only talk to it."""
    with stack.running() as running:
        yield running


@pytest.fixture(scope="session")
def type_checked() -> TypeChecked:
    return type_checking(stack.ROOT / ".mypy_cache" / "of-authors")


@pytest.fixture(autouse=True)
def _answers_are_read_strictly() -> Iterator[None]:
    with strictness.strict_operations(), strictness.strict_clients():
        yield


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada@example.org", "correct horse", name="Ada")


@pytest.fixture
def bob(db: None) -> User:
    return User.objects.create_user("bob@example.org", "battery staple", name="Bob")


@pytest.fixture
def echo(db: None) -> Agent:
    return register_hosted("echo", "apps.showcase.agents.echo:Echo")


@pytest.fixture
def countdown(db: None) -> Agent:
    return register_hosted("countdown", "apps.showcase.agents.countdown:Countdown")


@pytest.fixture
def said() -> Callable[..., dict[str, Any]]:
    """Builds a user's message in the A2A shape."""

    def build(text: str = "hello", **fields: Any) -> dict[str, Any]:
        return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **fields}

    return build
