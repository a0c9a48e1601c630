"""The worker inside the server process."""

import threading

import pytest

from apps.engine import jobs

pytestmark = pytest.mark.django_db(transaction=True)


def test_one_that_is_stopped_while_it_starts_leaves_no_thread():
    before = set(threading.enumerate())
    with jobs.embedded_worker(grace=0.1):
        [thread] = [one for one in set(threading.enumerate()) - before if one.name == "celery-worker"]
    thread.join(10)
    assert not thread.is_alive()
