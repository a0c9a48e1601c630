"""Rate limits: requests per minute and simultaneous streams of each caller.

Known callers are counted by name, anonymous ones by address. Processes that share a Redis count requests together: each
takes a small share of a limit from Redis, uses it up in memory, and takes the next. Without a Redis there is one
process. Counting may ask Redis, so it is done in a thread.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from time import monotonic, time

import redis
from django.conf import settings

from apps.accounts.principals import Principal, address_key

log = logging.getLogger("parley.quotas")

MINUTE = 60.0  # seconds
SHARE = 0.01  # of a limit, which a process takes at once: so much of it can be left unused in each of the others
REDIS_SECONDS = 0.5
AWAY_SECONDS = 10.0  # after an error of Redis
STREAM_RETRY_SECONDS = 10  # a guess
APP_CALLS_PER_MINUTE = 30  # of one person by one page
APP_CONNECTIONS = 4  # of one person by pages at a time, per process


class QuotaExceeded(Exception):
    """A caller exceeded a limit; `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def caller_key(principal: Principal, address: str) -> str:
    """The key for a caller's counts."""
    return principal.sender or address_key(address)


_verified: set[int] = set()  # hashes of credentials that were accepted in this process
MAX_VERIFIED = 10_000


def presumed_key(credentials: str, address: str) -> str:
    """The key of a caller who is not authenticated yet. Unknown credentials from one address are one caller."""
    return credentials if was_verified(credentials) else address_key(address)


def was_verified(credentials: str) -> bool:
    """Did this process accept these credentials lately? They may have been revoked since."""
    return hash(credentials) in _verified


def note_verified(credentials: str) -> None:
    """These credentials were accepted, so their next request has a key of its own from the start."""
    if credentials:
        if len(_verified) >= MAX_VERIFIED:
            _verified.clear()
        _verified.add(hash(credentials))


def count_request(principal: Principal, address: str) -> None:
    """Raises QuotaExceeded."""
    if sender := principal.sender:
        request_counter.count(sender, settings.REQUESTS_PER_MINUTE)
    else:
        request_counter.count(address_key(address), settings.ANONYMOUS_REQUESTS_PER_MINUTE)


def count_act(principal: Principal) -> None:
    """Count a message, an answer or another start of work. Raises QuotaExceeded."""
    act_counter.count(caller_key(principal, ""), settings.ACTS_PER_MINUTE)


def count_app_call(principal: Principal, app: str) -> None:
    """Count a call of a tool by this page for a person. Raises QuotaExceeded."""
    app_counter.count(f"{caller_key(principal, '')} {app}", APP_CALLS_PER_MINUTE)


def check_app_calls(principal: Principal, app: str) -> None:
    """Count nothing. Raises QuotaExceeded once this page called more often than it may."""
    app_counter.check(f"{caller_key(principal, '')} {app}", APP_CALLS_PER_MINUTE + 1)


def open_app_call(principal: Principal) -> Callable[[], None]:
    """Count a connection for a page; call the result when it ends. Raises QuotaExceeded."""
    return app_connections.open(caller_key(principal, ""), APP_CONNECTIONS)


def count_fork(principal: Principal) -> None:
    """Count a fork, a retry or an edit. Raises QuotaExceeded."""
    fork_counter.count(caller_key(principal, ""), settings.FORKS_PER_MINUTE)


def count_key_change(principal: Principal) -> None:
    """Count the making or revoking of an API key. Raises QuotaExceeded."""
    key_counter.count(caller_key(principal, ""), settings.KEY_CHANGES_PER_MINUTE)


def count_view(address: str) -> None:
    """Count a view of a shared link by address. Raises QuotaExceeded."""
    view_counter.count(address_key(address), settings.SHARED_VIEWS_PER_MINUTE)


def count_event(webhook: str) -> None:
    """Count an event of an incoming webhook. Raises QuotaExceeded."""
    event_counter.count(webhook, settings.INCOMING_EVENTS_PER_MINUTE)


def count_leak_report(address: str) -> None:
    """Count a report of leaked keys by address. Raises QuotaExceeded."""
    leak_counter.count(address_key(address), settings.LEAK_REPORTS_PER_MINUTE)


def count_oauth(address: str) -> None:
    """Count a request for a token or a device code by address. Raises QuotaExceeded."""
    oauth_counter.count(address_key(address), settings.OAUTH_REQUESTS_PER_MINUTE)


def count_registration(address: str) -> None:
    """Count a program that registers itself by address. Raises QuotaExceeded."""
    registration_counter.count(address_key(address), settings.OAUTH_REGISTRATIONS_PER_MINUTE)


def check_oauth_failures(client: str, address: str) -> None:
    """Raises QuotaExceeded after too many failures of this client, known or not, at this address."""
    oauth_failure_counter.check(f"{address_key(address)} {client[:100]}", settings.OAUTH_FAILURES_PER_MINUTE)


def count_oauth_failure(client: str, address: str) -> None:
    """Count a wrong secret, code or refresh token."""
    oauth_failure_counter.add(f"{address_key(address)} {client[:100]}", settings.OAUTH_FAILURES_PER_MINUTE)


def open_stream(principal: Principal, address: str) -> Callable[[], None]:
    """Count an open stream; call the result when it ends. Raises QuotaExceeded."""
    return stream_counter.open(caller_key(principal, address), settings.STREAMS_PER_CALLER)


@dataclass(slots=True)
class _Count:
    """Of a caller in the current minute."""

    used: int = 0  # by all processes, as far as this one knows
    left: int = 0  # of the share that this process took
    exhausted: int = -1  # the highest limit of which nothing is left


class RequestCounter:
    """Requests of each caller in the current minute, shared by processes by `name`. Errors say `words`."""

    def __init__(self, name: str = "requests", words: str = "requests") -> None:
        self._name, self._words = name, words
        self._lock = threading.Lock()
        self._minute = 0
        self._counts: defaultdict[str, _Count] = defaultdict(_Count)
        self._alone_until = 0.0  # by `monotonic`

    def count(self, caller: str, limit: int) -> None:
        """Raises QuotaExceeded beyond the limit."""
        counted, wait = self.add(caller, limit)
        if counted > limit:
            raise self._exceeded(limit, wait)

    def check(self, caller: str, limit: int) -> None:
        """Count nothing. Raises QuotaExceeded at the limit."""
        if self.count_of(caller) >= limit:
            raise self._exceeded(limit, math.ceil(MINUTE - time() % MINUTE))

    def _exceeded(self, limit: int, wait: int) -> QuotaExceeded:
        return QuotaExceeded(f"More than {limit} {self._words} in a minute. Try again in {wait} s.", wait)

    def add(self, caller: str, limit: int) -> tuple[int, int]:
        """Count one more. Returns the number of this minute, and the seconds until the next."""
        now = time()
        minute, wait = int(now // MINUTE), math.ceil(MINUTE - now % MINUTE)
        with self._lock:
            if minute > self._minute:
                self._minute = minute
                self._counts.clear()
            count = self._counts[caller]
            if count.left > 0 or limit <= count.exhausted or not self._is_shared():
                count.left = max(0, count.left - 1)
                count.used += 1
                return max(count.used, limit + 1 if limit <= count.exhausted else 0), wait
        share = max(1, int(limit * SHARE))
        taken = self._take(minute, caller, share)
        with self._lock:
            count = self._counts[caller]
            before = count.used if taken is None else taken - share
            granted = 1 if taken is None else min(share, limit - before)
            count.used = max(count.used, before) + 1
            if granted > 0:
                count.left += granted - 1
            else:
                count.exhausted = max(count.exhausted, limit)
            return count.used, wait

    def count_of(self, caller: str) -> int:
        """The number of this minute."""
        minute = int(time() // MINUTE)
        taken = self._take(minute, caller, 0) if self._is_shared() else None
        with self._lock:
            count = self._counts[caller] if minute <= self._minute else _Count()
            return count.used if taken is None or count.exhausted >= 0 else max(count.used, taken - count.left)

    def _is_shared(self) -> bool:
        return settings.CHANNEL_LAYER_URL.startswith("redis") and monotonic() >= self._alone_until

    def _take(self, minute: int, caller: str, share: int) -> int | None:
        """What all processes have taken with this share; None without Redis, when this process counts alone."""
        key = f"{settings.INSTALLATION}:{self._name}:{minute}"
        try:
            with _store(settings.CHANNEL_LAYER_URL).pipeline(transaction=False) as asked:
                asked.hincrby(key, caller, share)
                asked.expire(key, int(2 * MINUTE))
                return int(asked.execute()[0])
        except redis.RedisError as error:
            log.warning("%s are counted by each process alone: %s", self._name, error)
            self._alone_until = monotonic() + AWAY_SECONDS
            return None


@cache
def _store(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS)


class StreamCounter:
    """The open streams of each caller in this process. Errors say `words`."""

    def __init__(self, words: str = "streams at the same time. Close one first.") -> None:
        self._words = words
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    def open(self, caller: str, limit: int) -> Callable[[], None]:
        """Count a stream; call the result once when it ends. Raises QuotaExceeded."""
        with self._lock:
            if self._open[caller] >= limit:
                raise QuotaExceeded(f"More than {limit} {self._words}", STREAM_RETRY_SECONDS)
            self._open[caller] += 1
        return partial(self._close, caller)

    def count_of(self, caller: str) -> int:
        """The number of open ones."""
        with self._lock:
            return self._open[caller]

    def _close(self, caller: str) -> None:
        with self._lock:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]


request_counter = RequestCounter()
event_counter = RequestCounter("hooks", "events")
act_counter = RequestCounter("acts", "starts of work")
fork_counter = RequestCounter("forks", "forks and edits")
key_counter = RequestCounter("keys", "new or revoked API keys")
leak_counter = RequestCounter("leaks", "reports of leaked API keys")
oauth_counter = RequestCounter("oauth", "requests for tokens")
registration_counter = RequestCounter("oauth-registrations", "programs that registered themselves")
oauth_failure_counter = RequestCounter("oauth-failures", "refused requests for tokens")
view_counter = RequestCounter("views", "looks at shared sessions")
app_counter = RequestCounter("app-calls", "calls of a page")
app_connections = StreamCounter("calls of pages at the same time. Wait for one to end.")
stream_counter = StreamCounter()
