"""Callers have limits of requests per minute and of streams, over all processes."""

import os
import time
import uuid

import pytest
import redis

from apps.accounts import quotas
from apps.accounts.principals import ANONYMOUS, Principal
from apps.accounts.quotas import QuotaExceeded, RequestCounter, StreamCounter

ADA = Principal(user_id=1, workspace_id=1, name="Ada")


@pytest.fixture
def clock(monkeypatch):
    """The test's time in seconds: ten seconds into a minute."""
    now = [6010.0]
    monkeypatch.setattr(quotas, "time", lambda: now[0])
    return now


def test_so_many_requests_are_taken_in_a_minute_and_no_more(clock):
    requests = RequestCounter()
    for _ in range(3):
        requests.count("ada", 3)
    with pytest.raises(QuotaExceeded, match="More than 3 requests in a minute") as refused:
        requests.count("ada", 3)
    assert refused.value.retry_after == 50
    requests.count("bob", 3)


def test_the_next_minute_begins_anew(clock):
    requests = RequestCounter()
    requests.count("ada", 1)
    clock[0] += 49.9
    with pytest.raises(QuotaExceeded) as refused:
        requests.count("ada", 1)
    assert refused.value.retry_after == 1
    clock[0] += 0.1
    requests.count("ada", 1)


def test_callers_are_told_apart_by_name_or_by_address():
    assert quotas.caller_key(ADA, "10.0.0.1") == quotas.caller_key(ADA, "10.0.0.2")
    assert quotas.caller_key(ANONYMOUS, "10.0.0.1") != quotas.caller_key(ANONYMOUS, "10.0.0.2")
    assert quotas.caller_key(ANONYMOUS, "2001:db8::1") == quotas.caller_key(ANONYMOUS, "2001:db8::ffff:1")
    assert quotas.caller_key(ANONYMOUS, "2001:db8:0:1::1") != quotas.caller_key(ANONYMOUS, "2001:db8::1")
    assert quotas.caller_key(ANONYMOUS, "::ffff:10.0.0.1") == quotas.caller_key(ANONYMOUS, "10.0.0.1")
    assert quotas.caller_key(ANONYMOUS, "unix:") == "at:unix:"


def test_unknown_credentials_of_one_address_are_one_caller():
    quotas.note_verified("Bearer good")
    assert quotas.presumed_key("Bearer bad", "10.0.0.1") == quotas.presumed_key("Bearer worse", "10.0.0.1")
    assert quotas.presumed_key("Bearer good", "10.0.0.1") != quotas.presumed_key("Bearer bad", "10.0.0.1")


def test_a_stream_that_ended_makes_room_for_another():
    streams = StreamCounter()
    close = [streams.open("ada", 2) for _ in range(2)]
    with pytest.raises(QuotaExceeded, match="More than 2 streams"):
        streams.open("ada", 2)
    streams.open("bob", 2)
    close[0]()
    streams.open("ada", 2)


@pytest.fixture
def store(settings):
    settings.INSTALLATION = f"parley-test-{uuid.uuid4().hex}"
    with redis.Redis.from_url(os.environ["CHANNEL_LAYER_URL"]) as store:
        yield store
        store.delete(*store.keys(f"{settings.INSTALLATION}:*"))


@pytest.fixture
def tells_nobody(monkeypatch):
    """Counts are exchanged only when the test says so."""
    monkeypatch.setattr(RequestCounter, "_tell", lambda self: None)


@pytest.mark.services("counts are shared by a Redis", only=True)
@pytest.mark.usefixtures("tells_nobody")
def test_processes_that_share_a_redis_know_each_others_counts(store, clock):
    one, other = RequestCounter(), RequestCounter()
    for _ in range(3):
        one.count("ada", 5)
        other.count("bob", 5)
    one.exchange(store)
    other.count("ada", 5)
    other.exchange(store)
    other.count("ada", 5)
    with pytest.raises(QuotaExceeded):
        other.count("ada", 5)
    one.exchange(store)
    for _ in range(2):
        one.count("ada", 5)
    one.exchange(store)
    with pytest.raises(QuotaExceeded):
        one.count("ada", 5)
    one.count("bob", 1)


@pytest.mark.services("counts are shared by a Redis", only=True)
def test_counts_are_told_without_being_asked_for(store, clock, settings):
    RequestCounter().count("ada", 5)
    told = f"{settings.INSTALLATION}:requests:{int(clock[0] // 60)}"
    deadline = time.monotonic() + 30
    while not store.exists(told):
        assert time.monotonic() < deadline
    assert store.hgetall(told) == {b"ada": b"1"}


@pytest.mark.services("counts are shared by a Redis", only=True)
@pytest.mark.usefixtures("tells_nobody")
def test_counts_of_a_minute_that_is_over_are_forgotten(store, clock, settings):
    one, other = RequestCounter(), RequestCounter()
    one.count("ada", 1)
    one.exchange(store)
    clock[0] += 60
    other.count("ada", 1)
    other.exchange(store)
    with pytest.raises(QuotaExceeded):
        other.count("ada", 1)
    assert all(0 < store.ttl(key) <= 120 for key in store.keys(f"{settings.INSTALLATION}:*"))
