"""The cast of all tests: Ada, Bob and a few agents."""

import logging
import os
import re
import uuid
from contextlib import suppress
from importlib import import_module
from typing import Any

import hypothesis
import pytest
from celery import current_app
from django.conf import settings
from django.db import connection
from django.test import TestCase, TransactionTestCase, override_settings
from kombu import Queue
from structlog.contextvars import clear_contextvars

from apps.accounts.models import User
from apps.accounts.refusals import refusals
from apps.agents.identities import signing
from apps.agents.registration import register_hosted
from apps.budgets import spending
from apps.engine import jobs
from apps.installation import current
from apps.limits import current as limits
from apps.optional.guardrails import current as guardrails
from apps.remote import circuit_breaker
from apps.remote.federation import known
from apps.remote.identity.did_web import resolver
from parley import db as database
from parley.telemetry import logs
from tests import background, emptying, patterns, stack

pytest_plugins = ["tests.clients.of_the_api", "tests.clients.of_pages"]

# On a busy machine an example may be slow; the test's timeout ends a hanging one. The usual examples are the same each
# time; `make test-all` draws new ones, and what it finds becomes an `@example` of its test.
UNTIMED = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("usual", max_examples=25, derandomize=True, **UNTIMED)
hypothesis.settings.register_profile("large", max_examples=400, **UNTIMED)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


def pytest_collection(session: pytest.Session) -> None:
    """Parallel processes begin with different files: on a clean checkout each compiles its share for all."""
    if worker := getattr(session.config, "workerinput", None):
        files = [one for one in session.config.args if one.startswith("tests/") and one.endswith(".py")]
        for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
            with suppress(Exception):  # collecting says it better
                import_module(file.removesuffix(".py").replace("/", "."))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what this profile cannot run, however the tests were chosen."""
    embedded_only = [item for item in items if settings.EMBEDDED and _needs_services(item)]
    if embedded_only:
        config.hook.pytest_deselected(items=embedded_only)
        items[:] = [item for item in items if item not in set(embedded_only)]


def _needs_services(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("services")
    return marker is not None and bool(marker.kwargs.get("only"))


# API keys, credentials on the way, and the passwords and keys of the cast.
SECRETS = re.compile(r"parley_[0-9a-f]{12}_\w{20}|Bearer \w|correct horse|battery staple|sk-test-e7a1c0ffee")


class _LinesWithSecrets(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logs.formatter(as_json=True))
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if SECRETS.search(line := self.format(record)):
            self.found.append(line)


@pytest.fixture(scope="session", autouse=True)
def _no_line_of_the_log_has_a_secret():
    """Of all tests of this process; messages' texts are sought in `tests/telemetry/test_logs.py`."""
    lines = _LinesWithSecrets()
    logging.getLogger().addHandler(lines)
    yield
    logging.getLogger().removeHandler(lines)
    assert lines.found == []


@pytest.fixture(scope="session", autouse=True)
def _own_queue():
    """Test runs with one broker must not share notifications."""
    name = settings.INSTALLATION
    current_app.conf.task_queues = [Queue(name, routing_key=name, expires=300)]


@pytest.fixture(scope="session", autouse=True)
def _tests_end_with_their_background_work():
    with background.known(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", emptying.empty)
        patch.setattr(TestCase, "_fixture_teardown", emptying.rolled_back(TestCase._fixture_teardown))
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix):
    patterns.begin_with(stack.migrated(), connection)


@pytest.fixture(scope="session")
def django_db_keepdb():
    """SQLite's is a copy already, and goes with the folder."""
    return connection.vendor == "sqlite"


@pytest.fixture(scope="session", autouse=True)
def _bridge_ends_with_the_tests(django_db_setup, django_db_blocker):
    yield
    database.close()
    if connection.vendor == "postgresql":
        with django_db_blocker.unblock():
            emptying.end_other_connections()


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_collected_or_hashed_for_long():
    """Static files come from the sources, and hashing a password is fast."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    quick = ["django.contrib.auth.hashers.MD5PasswordHasher", "apps.accounts.clients.oauth.RandomSecretHasher"]
    with override_settings(STORAGES={**settings.STORAGES, "staticfiles": plain}, PASSWORD_HASHERS=quick):
        yield


@pytest.fixture(autouse=True)
def _what_is_remembered_is_of_the_test():
    """Caches last for seconds; clear them, because each test has an empty database, or none."""
    clear_contextvars()  # a request bound its id
    signing.clear_signers()
    circuit_breaker.clear_cache()
    known.forget()
    resolver.forget()
    spending.forget()
    refusals.clear()
    for cached in (current, limits, guardrails):  # a saved row makes them read again
        cached.keep(cached.Snapshot(read_at=float("inf")))


@pytest.fixture
def worker(transactional_db):
    """A real Celery worker and beat, in threads of this process."""
    with jobs.embedded_worker(grace=1):
        yield


@pytest.fixture(scope="session")
def server():
    """All of Parley's processes, shared by tests that only call it."""
    with stack.running() as running:
        yield running


@pytest.fixture
def ada(db):
    return User.objects.create_user("ada@example.org", "correct horse", name="Ada")


@pytest.fixture
def bob(db):
    return User.objects.create_user("bob@example.org", "battery staple", name="Bob")


@pytest.fixture
def echo(db):
    return register_hosted("echo", "examples.agents.echo:Echo")


@pytest.fixture
def countdown(db):
    return register_hosted("countdown", "examples.agents.countdown:Countdown")


@pytest.fixture
def said():
    def build(text: str = "hello", **fields: Any) -> dict[str, Any]:
        return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **fields}

    return build
