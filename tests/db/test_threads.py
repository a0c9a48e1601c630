"""The database's threads: errors, cancellation and closing."""

import asyncio
import threading
from contextlib import suppress

import pytest
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections

import db

pytestmark = pytest.mark.django_db(transaction=True)
WAIT = 20  # seconds, for a busy machine


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


def test_one_thread_does_all_while_it_is_free():
    done = [db.submit(threading.get_ident).result(WAIT) for _ in range(2 * settings.BRIDGE_THREADS)]
    assert len(set(done)) == 1
