"""Brokers, Redis and database connections go away in the middle of the work; the record does not."""

from __future__ import annotations

import contextlib

import psycopg
import pytest
import redis
from django.conf import settings
from kombu import Connection

from tests import stack
from tests.faults import servers
from tests.faults.agents import lines_to
from tests.faults.calling import Caller, text_of
from tests.faults.conftest import LEASE, PATIENCE
from tests.faults.test_killed_workers import assert_it_is_whole
from tests.stack import Stack

pytestmark = pytest.mark.services("needs several processes or a real broker", only=True)


def end_database_connections(frail: Stack) -> int:
    """What a restart of PostgreSQL does to this stack's connections; says how many they were."""
    with psycopg.connect(settings.DATABASE_URL, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [frail.name]
        )
        return len(ended.fetchall())


def test_work_goes_on_when_all_database_connections_break(frail: Stack, patient: Caller) -> None:
    task = patient.send("200")
    for _ in range(3):
        patient.wait_until_streaming(task, chunks=20)
        assert end_database_connections(frail) > 0
    done = patient.ended(task, within=PATIENCE + 200 * 0.1)
    assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(200)]
    assert_it_is_whole(frail, task)


def test_pages_and_calls_work_again_at_once_after_database_connections_broke(frail: Stack, patient: Caller) -> None:
    task = patient.send("1")
    patient.ended(task, within=PATIENCE)
    end_database_connections(frail)
    assert patient.call("GetTask", id=task["id"])["status"]["state"] == "TASK_STATE_COMPLETED"


def test_what_a_queue_lost_is_found_by_the_sweep(frail: Stack, patient: Caller) -> None:
    frail.terminate("worker")
    tasks = [patient.send("3") for _ in range(5)]
    lose_the_queue(frail)
    frail.start("worker")
    for task in tasks:
        assert text_of(patient.ended(task, within=PATIENCE)["artifacts"][0]) == lines_to(3)


def lose_the_queue(frail: Stack) -> None:
    with Connection(frail.environment["CELERY_BROKER_URL"]) as broker:
        broker.default_channel.queue_purge(frail.name)


def test_redis_as_broker_and_for_wake_ups_may_be_flushed_at_any_time() -> None:
    with contextlib.ExitStack() as exits:
        url = exits.enter_context(servers.redis_server()).url
        memory = exits.enter_context(redis.Redis.from_url(url))
        flushed = exits.enter_context(
            stack.running(RUN_LEASE_SECONDS=str(LEASE), CELERY_BROKER_URL=url, CHANNEL_LAYER_URL=url)
        )
        flushed.manage("register_agent", "patient", "--handler", "tests.faults.agents:Patient")
        patient = Caller(flushed, "patient")
        tasks = []
        for _ in range(5):
            tasks.append(patient.send("40"))
            memory.flushdb()
        patient.wait_until_streaming(tasks[0], chunks=5)
        memory.flushdb()
        for task in tasks:
            done = patient.ended(task, within=PATIENCE + 40 * 0.1)
            assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(40)]
