"""What carries wake-ups is gone for a while: what was under way and what came meanwhile is done, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from django.conf import settings

from apps.runtime.sweeping import REPUBLISH
from tests import stack
from tests.faults import servers
from tests.faults.agents import lines_to
from tests.faults.calling import JSON, Caller, message, text_of
from tests.faults.conftest import LEASE, PATIENCE
from tests.faults.servers import Line
from tests.faults.test_killed_workers import assert_it_is_whole
from tests.stack import Stack

pytestmark = pytest.mark.services("needs several processes or a real broker", only=True)
LOST_AGAIN = REPUBLISH.total_seconds() + settings.SWEEP_SECONDS  # when a wake-up that the sweep sent is sent once more


@contextmanager
def standing(**environment: str) -> Iterator[Stack]:
    with stack.running(RUN_LEASE_SECONDS=str(LEASE), **environment) as running:
        running.manage("register_agent", "patient", "--handler", "tests.faults.agents:Patient")
        yield running


def work_on_without(own: Stack, goes: Callable[[], object], comes_back: Callable[[], None]) -> None:
    """Something goes while a task works, is streamed and waited for, and while messages come; then it comes back."""
    patient = Caller(own, "patient")
    said = message("100")
    task = patient.call("SendMessage", message=said, configuration={"returnImmediately": True})["task"]
    with ThreadPoolExecutor() as callers:
        stream = callers.submit(patient.streamed, "SendStreamingMessage", message=said)
        waiting = callers.submit(patient.call, "SendMessage", message=said)
        patient.wait_until_streaming(task, chunks=20)
        goes()
        meanwhile = [patient.send("3") for _ in range(5)]
        patient.wait_until_streaming(task, chunks=20)
        comes_back()
        afterwards = patient.send("3")
        assert stream.result(PATIENCE + 100 * 0.1) == {"text": lines_to(100), "state": "TASK_STATE_COMPLETED"}
        assert_it_counted(waiting.result(PATIENCE)["task"], 100)
    for short in (*meanwhile, afterwards):
        assert_it_counted(patient.ended(short, within=PATIENCE + LOST_AGAIN), 3)
    for whole in (task, meanwhile[0]):
        assert_it_is_whole(own, whole)


def assert_it_counted(task: JSON, last: int) -> None:
    assert [text_of(artifact) for artifact in task["artifacts"]] == [lines_to(last)]
    assert [one["role"] for one in task["history"]] == ["ROLE_USER", "ROLE_AGENT"]


def test_redis_as_broker_and_for_wake_ups_may_be_killed_and_started_again() -> None:
    with servers.redis_server() as redis, standing(CELERY_BROKER_URL=redis.url, CHANNEL_LAYER_URL=redis.url) as own:
        work_on_without(own, redis.kill, redis.start)


def test_the_broker_may_be_out_of_reach() -> None:
    with closing(Line(settings.CELERY_BROKER_URL)) as line, standing(CELERY_BROKER_URL=line.url) as own:
        work_on_without(own, line.cut, line.mend)
