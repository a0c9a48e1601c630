"""What the sweep and a worker's event loop do with lists of work."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from celery import current_app
from django.contrib.sessions.models import Session

from parley import outbound
from parley.outbound import Limits
from parley.work import WorkList, lists, running, work_lists
from parley.work.running import Runner, Slots


def list_of(name: str, work: Callable[..., Any], due: Callable[[], Any] = list) -> WorkList:
    return WorkList(name, f"test.{name}", work, Session, due=due)


@pytest.fixture
def sent(monkeypatch):
    jobs: list[tuple[str, str]] = []

    def note(job: str, key: str, expires: float | None) -> bool:
        jobs.append((job, key))
        return True

    monkeypatch.setattr(lists, "send_job", note)
    return jobs


@pytest.fixture
def runner():
    made = Runner()
    yield made
    made.close()


def test_list_that_fails_stops_no_other(sent, monkeypatch):
    def away() -> Any:
        raise RuntimeError

    broken, sound = list_of("broken", print, away), list_of("sound", print, lambda: ["a", "b"])
    monkeypatch.setattr(lists, "work_lists", lambda: (broken, sound))
    with pytest.raises(lists.SweepFailed, match="broken"):
        lists.sweep()
    assert sent == [("test.sound", "a"), ("test.sound", "b")]


def test_every_list_has_its_job():
    current_app.loader.import_default_modules()
    names = [one.name for one in work_lists()]
    assert len(set(names)) == len(names)
    assert {one.job for one in work_lists()} <= set(current_app.tasks)
    assert [one.name for one in work_lists() if not one.work.__doc__] == []


@pytest.mark.django_db
def test_every_list_finds_due_and_waiting_rows():
    for one in work_lists():
        assert list(one.due_keys()) == []
        assert one.unfinished().order_by(one.since).first() is None


def test_slow_key_delays_no_other(runner):
    began, may_end, ended = threading.Semaphore(0), threading.Event(), []

    async def work(key: str) -> None:
        began.release()
        if key == "slow":
            await asyncio.to_thread(may_end.wait, 5)
        ended.append(key)

    some = list_of(f"slow-{uuid.uuid4().hex}", work)
    for key in ("slow", "slow", "quick"):
        runner.wake(some, key)
    assert began.acquire(timeout=5)
    assert began.acquire(timeout=5)
    may_end.set()
    assert began.acquire(timeout=5)
    assert ended.count("quick") == 1


@pytest.mark.django_db(transaction=True)
async def test_one_host_takes_no_room_of_others():
    working: list[str] = []
    go_on = asyncio.Event()

    async def work(key: str) -> None:
        working.append(key)
        await go_on.wait()

    some = WorkList("hosts", "test.hosts", work, Session, host_of=lambda key: key[0], per_host=1)
    room = Slots(some.at_once, some.per_host)
    async with outbound.exchange(Limits(seconds=1)) as client, asyncio.TaskGroup() as tasks:
        for key in ("a1", "a2", "b1"):
            tasks.create_task(running.work(some, key, room, client))
        while len(working) < 2:  # noqa: ASYNC110 - the tasks say nothing
            await asyncio.sleep(0.001)
        assert {key[0] for key in working} == {"a", "b"}
        go_on.set()
    assert sorted(working) == ["a1", "a2", "b1"]


def test_closed_loop_gives_work_to_another_worker(sent):
    before = set(threading.enumerate())
    made = Runner()
    [thread] = set(threading.enumerate()) - before
    made.close()
    assert not thread.is_alive()
    made.wake(list_of("late", asyncio.sleep), "key")
    assert sent == [("test.late", "key")]
