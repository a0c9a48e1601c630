"""PostgreSQL is restarted in the middle of everything: who waited gets an answer, and the record is whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests import stack
from tests.faults import servers
from tests.faults.agents import lines_to
from tests.faults.calling import JSON, TERMINAL, Caller, message, text_of
from tests.faults.conftest import LEASE, PATIENCE
from tests.faults.servers import Postgres
from tests.faults.test_killed_workers import assert_it_is_whole
from tests.stack import Stack

pytestmark = pytest.mark.services("needs several processes or a real broker", only=True)
TALKERS = 3


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with servers.postgres() as server:
        yield server


@pytest.fixture(scope="module")
def standing(postgres: Postgres) -> Iterator[Stack]:
    """A stack whose record is in that cluster."""
    services = {**os.environ, "DATABASE_URL": postgres.url}
    commits_wait_for_the_disk = {"PGOPTIONS": ""}  # as they do where it matters: a crash loses none of them
    with stack.running(services, RUN_LEASE_SECONDS=str(LEASE), **commits_wait_for_the_disk) as running:
        running.manage("register_agent", "patient", "--handler", "tests.faults.agents:Patient")
        yield running


def talk(patient: Caller, context: str, over: threading.Event) -> list[JSON]:
    """Send one message after the other, each when the task of the last one has ended; gives the tasks."""
    tasks: list[JSON] = []
    while not over.is_set():
        tasks.append(patient.insist("SendMessage", message=message("2", contextId=context))["task"])
    return tasks


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_what_runs_streams_waits_and_arrives_outlives_a_restart(standing: Stack, postgres: Postgres, mode: str) -> None:
    patient, countdown = Caller(standing, "patient"), Caller(standing, "countdown")
    conversation = patient.send("1")
    over = threading.Event()
    with ThreadPoolExecutor() as callers:
        said = message("100")
        task = patient.call("SendMessage", message=said, configuration={"returnImmediately": True})["task"]
        waiting = callers.submit(patient.insist, "SendMessage", message=said)  # again: it waits for the same task
        heard = (said, message("100"))
        streams = [callers.submit(patient.streamed, "SendStreamingMessage", message=one) for one in heard]
        unrepeatable = countdown.send("60")
        talking = [callers.submit(talk, patient, conversation["contextId"], over) for _ in range(TALKERS)]
        patient.wait_until_streaming(task, chunks=20)
        postgres.restart(mode)
        patient.wait_until_streaming(task, chunks=20)
        over.set()

        done = waiting.result(PATIENCE + 100 * 0.1)["task"]
        assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(100)]
        for stream in streams:
            assert stream.result(PATIENCE + 100 * 0.1) == {"text": lines_to(100), "state": "TASK_STATE_COMPLETED"}
        ended = countdown.ended(unrepeatable, within=PATIENCE + 60 * 0.1)
        tasks = [task for talker in talking for task in talker.result(PATIENCE)]

    assert ended["status"]["state"] in TERMINAL
    assert text_of(ended["status"]["message"])
    for answered in tasks:
        assert [text_of(artifact) for artifact in answered["artifacts"]] == [lines_to(2)]
    listed = patient.call("ListTasks", contextId=conversation["contextId"])
    assert listed["totalSize"] == 1 + len(tasks)
    for whole in (task, unrepeatable, conversation):
        assert_it_is_whole(standing, whole)


def test_pages_work_at_once_after_a_restart(standing: Stack, postgres: Postgres) -> None:
    def status_of_home(_: int) -> int:
        return httpx.get(standing.url, cookies={"sessionid": "nobody's, which is looked for"}, timeout=60).status_code

    def visit() -> None:
        with ThreadPoolExecutor(8) as visitors:
            assert set(visitors.map(status_of_home, range(24))) == {httpx.codes.FOUND}, "to where people sign in"

    visit()  # and leave connections that nobody uses
    postgres.restart("fast")
    visit()
