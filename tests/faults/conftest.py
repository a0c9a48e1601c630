"""Stacks with short leases, so that tests wait less."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from django.conf import settings

from tests import stack
from tests.faults.calling import JSON, Caller, until
from tests.faults.servers import Line
from tests.stack import Stack

LEASE = 3.0
PATIENCE = LEASE + 30  # until a run without its worker continues or fails, on a busy machine
REGISTER = """
import django
django.setup()
from apps.agents.registration import register_hosted
from tests.faults.agents import AGENTS
for slug, name in AGENTS.items():
    register_hosted(slug, f"tests.faults.agents:{name}")
"""
DIFFERENCES = """
import django
django.setup()
from apps.record.models import Context
from apps.record.projection import differences
for context in Context.objects.all():
    for difference in differences(context.pk):
        print(context.pk, difference)
"""


@contextmanager
def standing(services: Mapping[str, str] = os.environ, **environment: str) -> Iterator[Stack]:
    """A stack to damage; at the end its logs must match its rows."""
    with stack.prepared(services, RUN_LEASE_SECONDS=str(LEASE), OUTBOUND_ALLOW="127.0.0.1") as own:
        own.prepare()
        own.environment.update(DJANGO_SETTINGS_MODULE="tests.faults.quick", **environment)
        own.python("-c", REGISTER)
        own.launch(*own.commands())
        own.wait_for("/readyz")
        yield own
        own.kill()
        assert own.python("-c", DIFFERENCES).stdout == ""


def kill_the_worker(own: Stack) -> None:
    """SIGKILL what executes runs, and start it again."""
    name = "serve" if own.is_embedded else "worker"
    own.kill(name)
    own.start(name)


def rows(own: Stack, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(own.environment["DATABASE_URL"]) as connection:
        return connection.execute(query, values).fetchall()


def chunks_of(own: Stack, task: JSON) -> int:
    query = "SELECT count(*) FROM record_event WHERE task_id = %s AND type = 'artifact_update'"
    return int(rows(own, query, task["id"])[0][0])


def wait_for_stop(own: Stack, task: JSON, number: int) -> None:
    """Wait until a patient agent has reached that number."""
    until(lambda: chunks_of(own, task) >= number, PATIENCE)


@pytest.fixture(scope="package")
def broker_line():
    with closing(Line(settings.CELERY_BROKER_URL)) as line:
        yield line


@pytest.fixture(scope="package")
def frail(broker_line):
    """Each test must leave it running."""
    with standing(CELERY_BROKER_URL=broker_line.url) as own:
        yield own


@pytest.fixture
def patient(frail):
    return Caller(frail, "patient")


@pytest.fixture
def countdown(frail):
    return Caller(frail, "countdown")
