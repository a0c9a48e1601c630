"""PostgreSQL and Redis go away: callers get answers, and the record is complete."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.faults import servers
from tests.faults.agents import lines_to
from tests.faults.calling import JSON, TERMINAL, Caller, message, text_of
from tests.faults.conftest import PATIENCE, standing, wait_for_stop
from tests.faults.goings import work_on_without
from tests.faults.servers import Postgres
from tests.stack import Stack

pytestmark = pytest.mark.services("services of their own, which are killed", only=True)
TALKERS = 3


@pytest.fixture(scope="module")
def postgres():
    with servers.postgres() as server:
        yield server


@pytest.fixture(scope="module")
def memory():
    with servers.redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def own(postgres, memory):
    """A stack on that cluster and that Redis."""
    services = {"DATABASE_URL": postgres.url, "CELERY_BROKER_URL": memory.url, "CHANNEL_LAYER_URL": memory.url}
    commits_wait_for_the_disk = {"PGOPTIONS": ""}  # as in production: a crash loses no commit
    with standing(services, **commits_wait_for_the_disk) as running:
        yield running


def talk(patient: Caller, context: str, over: threading.Event) -> list[JSON]:
    """Send messages one after the other, each after the previous task's end; returns the tasks."""
    tasks: list[JSON] = []
    while not over.is_set():
        tasks.append(patient.insist("SendMessage", message=message("2", contextId=context))["task"])
    return tasks


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_work_streams_and_callers_outlive_a_restart(own, postgres, mode, tmp_path):
    patient, countdown = Caller(own, "patient"), Caller(own, "countdown")
    conversation = patient.send("1")
    over = threading.Event()
    with ThreadPoolExecutor() as callers:
        said = message(f"30 {tmp_path}")
        task = patient.call("SendMessage", message=said, configuration={"returnImmediately": True})["task"]
        waiting = callers.submit(patient.insist, "SendMessage", message=said)  # the retry waits for the same task
        heard = ((said, 30), (message("60"), 60))
        streams = [callers.submit(patient.streamed, "SendStreamingMessage", message=one) for one, _ in heard]
        unrepeatable = countdown.send("60")
        talking = [callers.submit(talk, patient, conversation["contextId"], over) for _ in range(TALKERS)]
        wait_for_stop(own, task, 10)
        postgres.restart(mode)
        Path(tmp_path, "10").touch()
        wait_for_stop(own, task, 20)
        over.set()
        Path(tmp_path, "20").touch()

        done = waiting.result(2 * PATIENCE)["task"]
        assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(30)]
        for stream, (_, last) in zip(streams, heard, strict=True):
            assert stream.result(2 * PATIENCE) == {"text": lines_to(last), "state": "TASK_STATE_COMPLETED"}
        ended = countdown.ended(unrepeatable, within=2 * PATIENCE)
        tasks = [task for talker in talking for task in talker.result(PATIENCE)]

    assert ended["status"]["state"] in TERMINAL
    assert text_of(ended["history"][-1])
    for answered in tasks:
        assert [text_of(artifact) for artifact in answered["artifacts"]] == [lines_to(2)]
    listed = patient.call("ListTasks", contextId=conversation["contextId"])
    assert listed["totalSize"] == 1 + len(tasks)


def test_broken_database_connections_stop_nothing(own, postgres, tmp_path):
    patient = Caller(own, "patient")
    task, free = patient.send(f"30 {tmp_path}"), patient.send("60")
    for stop in (10, 20):
        wait_for_stop(own, task, stop)
        assert end_connections(own, postgres) > 0
        assert patient.call("GetTask", id=task["id"])["id"] == task["id"]
        Path(tmp_path, str(stop)).touch()
    for one, last in ((task, 30), (free, 60)):
        done = patient.ended(one, within=2 * PATIENCE)
        assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(last)]


def end_connections(own: Stack, postgres: Postgres) -> int:
    """Returns their number."""
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        return len(connection.execute(query, [own.name]).fetchall())


def test_redis_may_be_killed_and_restarted(own, memory, tmp_path):
    work_on_without(own, memory.kill, memory.start, tmp_path)
