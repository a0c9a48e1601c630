"""Callers have limits of requests per minute and of streams, over all processes."""

import os
import subprocess
import sys
import uuid

import pytest
import redis

from apps.accounts.principals import ANONYMOUS, Principal
from apps.accounts.requests import quotas
from apps.accounts.requests.quotas import QuotaExceeded, RequestCounter, StreamCounter

ADA = Principal(user_id=1, workspace_id=1, name="Ada")


@pytest.fixture
def clock(monkeypatch):
    """The test's time in seconds: ten seconds into a minute."""
    now = [6010.0]
    monkeypatch.setattr(quotas, "time", lambda: now[0])
    return now


def test_requests_per_minute_are_limited(clock):
    requests = RequestCounter()
    for _ in range(3):
        requests.count("ada", 3)
    for later, left in ((0, 50), (49.9, 1)):
        clock[0] += later
        with pytest.raises(QuotaExceeded, match="More than 3 requests in a minute") as refused:
            requests.count("ada", 3)
        assert refused.value.retry_after == left
    requests.count("bob", 3)
    clock[0] += 0.1
    requests.count("ada", 3)


def test_callers_differ_by_name_or_address():
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


PROCESS = """
import sys
sys.path[:] = sys.argv[4:]
from django.conf import settings
settings.configure(CHANNEL_LAYER_URL=sys.argv[1], INSTALLATION=sys.argv[2])
from apps.accounts.requests import quotas
quotas.time = lambda: 6010.0
counter, limit = quotas.RequestCounter(), int(sys.argv[3])
sys.stdin.readline()
print(sum(counter.add("ada", limit)[0] <= limit for _ in range(limit)))
"""


@pytest.mark.services("counts are shared by a Redis", only=True)
@pytest.mark.parametrize("limit", [20, 1_000])
def test_a_limit_is_exact_across_processes(store, settings, limit):
    command = [sys.executable, "-c", PROCESS, os.environ["CHANNEL_LAYER_URL"], settings.INSTALLATION, str(limit)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([*command, *sys.path], **pipes) for _ in range(2)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    taken = sum(int(process.communicate(timeout=120)[0]) for process in processes)
    assert 0.9 * limit <= taken <= limit
    assert taken == limit or limit > 100


def test_without_its_redis_a_process_counts_alone(settings, clock):
    settings.CHANNEL_LAYER_URL = "redis://127.0.0.1:1/0"
    counter = RequestCounter()
    assert [counter.add("ada", 2)[0] for _ in range(4)] == [1, 2, 3, 4]
