"""Settling notifications are sent at once, otherwise the newest after a wait."""

import queue
import threading
import time
import uuid

import pytest
from django.conf import settings

from apps.record.reading.notifications import Relay

SOON = 10.0  # seconds after which a notification counts as lost

pytestmark = pytest.mark.services("needs several processes or a real broker", only=True)


class Process:
    """A relay as in another process, and its messages except greetings."""

    def __init__(self, prefix, url=""):
        self.heard, self.greeted = queue.Queue(), threading.Event()
        self.relay = Relay(url or settings.CHANNEL_LAYER_URL, prefix, self.hear)

    def hear(self, group, key, index, owner, settles):
        if key == "hello":
            self.greeted.set()
        else:
            said = (group, key, index, owner) if owner else (group, key, index)
            self.heard.put(said if settles else (*said, "on its way"))

    def hears(self):
        return self.heard.get(timeout=SOON)


def listens(process, *, told_by):
    """Subscribing takes a moment: greet until one arrives."""
    process.greeted.clear()
    process.relay.listen("group")
    deadline = time.monotonic() + SOON
    while not process.greeted.wait(0.01):
        told_by.relay.send("group", "hello", 1)
        assert time.monotonic() < deadline


@pytest.fixture
def prefix():
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def one(prefix):
    return Process(prefix)


@pytest.fixture
def other(prefix, one):
    process = Process(prefix)
    listens(process, told_by=one)
    return process


def test_processes_hear_each_other_not_themselves(one, other):
    listens(one, told_by=other)
    Process("test-another").relay.send("group", "a key", 1)  # another installation
    one.relay.send("group", "a key", 7, "ada")
    other.relay.send("group", "another key", 8)
    assert other.hears() == ("group", "a key", 7, "ada")
    assert one.hears() == ("group", "another key", 8)
    assert one.heard.empty()
    assert other.heard.empty()


def test_newest_waiting_announcement_is_carried(one, other):
    for index in (*range(1, 100), 50):
        one.relay.send("group", "a key", index, wait=0.05)
    assert other.hears() == ("group", "a key", 99)
    one.relay.send("group", "a key", 105, wait=3600)
    one.relay.send("group", "a key", 104)
    assert other.hears() == ("group", "a key", 105), "what may not wait takes along what does"
    one.relay.send("group", "patient", 1, wait=3600)
    one.relay.send("group", "less so", 1, wait=0.01)
    assert other.hears() == ("group", "less so", 1)
