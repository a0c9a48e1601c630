"""Settling notifications are sent at once, otherwise the newest after a wait."""

import logging
import queue
import threading
import time
import uuid

import pytest
from django.conf import settings

from apps.record.notifications import Relay
from tests.faults.servers import redis_server

SOON = 10.0  # seconds after which a notification counts as lost

pytestmark = pytest.mark.services("needs several processes or a real broker", only=True)


class Process:
    """A relay as in another process, and its messages except greetings."""

    def __init__(self, prefix, url=""):
        self.heard, self.greeted = queue.Queue(), threading.Event()
        self.relay = Relay(url or settings.CHANNEL_LAYER_URL, prefix, self.hear)

    def hear(self, group, key, index, owner):
        if key == "hello":
            self.greeted.set()
        else:
            self.heard.put((group, key, index, owner) if owner else (group, key, index))

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


def test_what_one_process_says_the_others_hear_and_not_itself(one, other):
    listens(one, told_by=other)
    one.relay.send("group", "a key", 7)
    other.relay.send("group", "another key", 8)
    assert other.hears() == ("group", "a key", 7)
    assert one.hears() == ("group", "another key", 8)
    assert one.heard.empty()
    assert other.heard.empty()


def test_whose_a_key_is_is_said_along(one, other):
    one.relay.send("group", "a key", 7, "ada", wait=0.01)
    assert other.hears() == ("group", "a key", 7, "ada")


def test_processes_of_two_versions_understand_each_other(one, other):
    """The previous version sent `<name> <index> <key>`, without owners."""
    said = []
    one.relay._publish = lambda group, text: said.append(text)
    one.relay.send("group", "a key", 7, "ada")
    name, index, key = said[0].split(" ", 2)
    assert (name != other.relay._name, index, key) == (True, "7", "a key")
    other.relay._receive("group", "f00d 8 a key")
    assert other.hears() == ("group", "a key", 8)


def test_processes_of_another_installation_hear_nothing(one, other):
    stranger = Process("test-another")
    stranger.relay.send("group", "a key", 1)
    one.relay.send("group", "a key", 2)
    assert other.hears() == ("group", "a key", 2)


def test_of_what_may_wait_only_the_newest_is_carried(one, other):
    for index in (*range(1, 100), 50):
        one.relay.send("group", "a key", index, wait=0.05)
    assert other.hears() == ("group", "a key", 99)
    one.relay.send("group", "end", 1)
    assert other.hears() == ("group", "end", 1)


def test_what_may_not_wait_takes_along_what_does(one, other):
    one.relay.send("group", "a key", 5, wait=3600)
    one.relay.send("group", "a key", 4)
    assert other.hears() == ("group", "a key", 5)


def test_what_waits_shorter_is_not_held_up_by_what_waits_longer(one, other):
    one.relay.send("group", "patient", 1, wait=3600)
    one.relay.send("group", "less so", 1, wait=0.01)
    assert other.hears() == ("group", "less so", 1)


def test_what_somebody_else_has_said_is_not_said_again(one, other):
    listens(one, told_by=other)
    third = Process(one.relay._prefix)
    listens(third, told_by=other)
    one.relay.send("group", "a key", 6, wait=0.2)
    other.relay.send("group", "a key", 6)
    assert third.hears() == ("group", "a key", 6)
    assert one.hears() == ("group", "a key", 6)
    one.relay.send("group", "end", 1, wait=0.3)
    assert third.hears() == ("group", "end", 1)


def test_a_redis_that_goes_away_is_no_error_and_one_that_is_back_is_used_again(prefix, caplog):
    caplog.set_level(logging.INFO, "parley.notifications")
    with redis_server() as server:
        one, other = Process(prefix, server.url), Process(prefix, server.url)
        listens(other, told_by=one)
        server.kill()
        for index in range(10):
            one.relay.send("group", "a key", index)
        assert sum("not being delivered" in line for line in caplog.messages) == 1
        server.start()
        listens(other, told_by=one)
        assert sum("delivered to other processes again" in line for line in caplog.messages) == 1
