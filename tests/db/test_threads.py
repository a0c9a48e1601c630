"""The bridge's threads: as few as do, never more than allowed, and all that was given to them is done."""

import asyncio
import threading
from contextlib import suppress
from queue import SimpleQueue

import pytest
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections

import db
from db.threads import Threads

pytestmark = pytest.mark.django_db(transaction=True)
WAIT = 20  # seconds that a machine which does much else may take


def busy(threads, count):
    """That many jobs that work at the same time, each in a thread; gives how to let them end."""
    working, go_on = threading.Barrier(count + 1), threading.Event()

    def work():
        working.wait(WAIT)
        go_on.wait(WAIT)

    for _ in range(count):
        threads.call(work)
    working.wait(WAIT)
    return go_on.set


def test_there_are_never_more_than_allowed():
    left = SimpleQueue()
    threads = Threads(3, lambda: left.put(threading.current_thread().name))
    let_end, names = busy(threads, 3), SimpleQueue()
    for _ in range(10):
        threads.call(lambda: names.put(threading.current_thread().name))
    assert names.empty()
    let_end()
    assert len({names.get(timeout=WAIT) for _ in range(10)}) <= 3
    threads.close()
    assert len({left.get(timeout=WAIT) for _ in range(3)}) == 3


def test_closing_waits_for_what_is_left_over_in_its_order_and_ends_the_thread():
    left = SimpleQueue()
    threads, done = Threads(1, lambda: left.put("left")), []
    let_end = busy(threads, 1)
    for number in range(10):
        threads.call(lambda number=number: done.append(number))
    closing = threading.Thread(target=threads.close)
    closing.start()
    let_end()
    closing.join(WAIT)
    assert done == list(range(10))
    assert left.get(timeout=WAIT) == "left"
    with pytest.raises(RuntimeError):
        threads.call(lambda: None)


async def test_what_nobody_waits_for_any_more_is_not_begun():
    go_on, begun = threading.Event(), []
    holding = [asyncio.ensure_future(db.run(go_on.wait, WAIT)) for _ in range(settings.BRIDGE_THREADS)]
    unwanted = asyncio.ensure_future(db.run(begun.append, "unwanted"))
    wanted = asyncio.ensure_future(db.run(begun.append, "wanted"))
    await asyncio.sleep(0)
    unwanted.cancel()
    with suppress(asyncio.CancelledError):
        await unwanted
    go_on.set()
    await asyncio.gather(wanted, *holding)
    assert begun == ["wanted"]


async def test_an_error_comes_to_who_waits_for_it():
    def fail():
        raise KeyError("no")

    with pytest.raises(KeyError):
        await db.run(fail)
    with pytest.raises(KeyError):
        db.submit(fail).result(WAIT)
    assert await db.run(lambda: "on it goes") == "on it goes"


def test_a_loop_that_ends_meanwhile_costs_no_thread():
    go_on = threading.Event()

    async def leave():
        left = asyncio.ensure_future(db.run(go_on.wait, WAIT))
        await asyncio.sleep(0)
        assert not left.done()

    for _ in range(settings.BRIDGE_THREADS):
        asyncio.run(leave())
    go_on.set()
    answers = [db.submit(threading.get_ident) for _ in range(settings.BRIDGE_THREADS)]
    assert all(answer.result(WAIT) for answer in answers)


def test_after_closing_there_are_new_ones():
    def connected():
        connection.ensure_connection()
        return threading.current_thread(), connections[DEFAULT_DB_ALIAS]

    thread, its_connection = db.submit(connected).result(WAIT)
    assert its_connection.connection is not None
    db.close()
    assert not thread.is_alive()
    assert its_connection.connection is None
    assert db.submit(threading.current_thread).result(WAIT).is_alive()


def test_a_thread_that_has_long_had_nothing_to_do_leaves_and_works_on_when_it_is_asked():
    left, told = SimpleQueue(), SimpleQueue()
    threads = Threads(1, lambda: left.put(threading.get_ident()), patience=0.01)
    threads.call(lambda: told.put(threading.get_ident()))
    thread = told.get(timeout=WAIT)
    assert left.get(timeout=WAIT) == thread
    threads.call(lambda: told.put(threading.get_ident()))
    assert told.get(timeout=WAIT) == thread
    threads.close()


def test_a_thread_that_could_not_be_started_is_not_counted_nor_waited_for(monkeypatch):
    left = SimpleQueue()
    threads = Threads(1, lambda: left.put("left"))
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", cannot_start)
        with pytest.raises(RuntimeError, match="can't start"):
            threads.call(lambda: None)
    threads.call(lambda: left.put("done"))
    assert left.get(timeout=WAIT) == "done"
    threads.close()
    assert left.get(timeout=WAIT) == "left"


def cannot_start(thread):
    raise RuntimeError("can't start new thread")
