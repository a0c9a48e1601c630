"""How much one caller may ask for: requests a minute, and streams at the same time.

Known callers are told apart by who they are, anonymous ones by their address. Everything is counted in memory, so
that a request costs no query; processes that share a Redis tell each other their counts every second.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable
from time import sleep, time

import redis
from django.conf import settings

from apps.accounts.principals import ANONYMOUS, Principal

log = logging.getLogger("parley.quotas")

MINUTE = 60.0  # seconds
EXCHANGE_SECONDS = 1.0
AWAY_SECONDS = 10.0  # how long a Redis that does not answer is left alone
STREAM_RETRY_SECONDS = 10  # a guess: nobody knows when the caller closes another


class QuotaExceeded(Exception):
    """A caller asks for more than it may; `retry_after` are the seconds after which it may ask again."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def caller_key(principal: Principal, address: str) -> str:
    """The name under which a caller is counted. Who has one address of an IPv6 network has all of its /64."""
    if principal.is_known:
        return principal.sender
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return f"at:{address}"
    if isinstance(ip, ipaddress.IPv4Address):
        return f"at:{ip}"
    # An IPv6 socket names all its IPv4 callers by addresses of one network.
    return f"at:{ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False)}"


def count_request(principal: Principal, address: str) -> None:
    """Raises QuotaExceeded."""
    limit = settings.REQUESTS_PER_MINUTE if principal.is_known else settings.ANONYMOUS_REQUESTS_PER_MINUTE
    request_counter.count(caller_key(principal, address), limit)


def count_act(principal: Principal) -> None:
    """Count what costs more than to look something up: a fork, an edit, a start of work. Raises QuotaExceeded."""
    act_counter.count(caller_key(principal, ""), settings.ACTS_PER_MINUTE)


def count_view(address: str) -> None:
    """Count a look at something that is shared by a link, by the address it comes from. Raises QuotaExceeded."""
    view_counter.count(caller_key(ANONYMOUS, address), settings.SHARED_VIEWS_PER_MINUTE)


def open_stream(principal: Principal, address: str) -> Callable[[], None]:
    """Count a stream of the caller as open; returns how to say that it has ended. Raises QuotaExceeded."""
    return stream_counter.open(caller_key(principal, address), settings.STREAMS_PER_CALLER)


class RequestCounter:
    """What each caller asked for in the current minute: this process's at once, those of others within a second.

    `name` is that of the count, which processes share, and `words` say to people what is counted.
    """

    def __init__(self, name: str = "requests", words: str = "requests") -> None:
        self._name, self._words = name, words
        self._lock = threading.Lock()
        self._minute = 0
        self._own: Counter[str] = Counter()
        self._others: dict[str, int] = {}
        self._untold: Counter[str] = Counter()
        self._telling = threading.Event()
        self._teller: threading.Thread | None = None

    def count(self, caller: str, limit: int) -> None:
        """Raises QuotaExceeded for a request of the caller beyond the limit."""
        now = time()
        with self._lock:
            self._turn_to(int(now // MINUTE))
            self._own[caller] += 1
            self._untold[caller] += 1
            counted = self._own[caller] + self._others.get(caller, 0)
        if _shared_url():
            self._tell()
        if counted > limit:
            wait = math.ceil(MINUTE - now % MINUTE)
            raise QuotaExceeded(f"More than {limit} {self._words} in a minute. Go on in {wait} s.", wait)

    def exchange(self, store: redis.Redis) -> None:
        """Add what was counted here since the last time to the counts of all, and learn those. Raises RedisError."""
        with self._lock:
            minute, told, self._untold = self._minute, self._untold, Counter()
            own = {caller: self._own[caller] for caller in told}
        if not told:
            return
        key = f"{settings.INSTALLATION}:{self._name}:{minute}"
        pipeline = store.pipeline(transaction=False)
        for caller, number in told.items():
            pipeline.hincrby(key, caller, number)
        pipeline.expire(key, int(2 * MINUTE))
        totals = pipeline.execute()
        with self._lock:
            if minute == self._minute:
                self._others |= {caller: total - own[caller] for caller, total in zip(told, totals, strict=False)}

    def _turn_to(self, minute: int) -> None:
        if minute != self._minute:
            self._minute = minute
            for counts in (self._own, self._others, self._untold):
                counts.clear()

    def _tell(self) -> None:
        self._telling.set()
        if self._teller is None:
            self._teller = threading.Thread(target=self._keep_telling, name="quotas", daemon=True)
            self._teller.start()

    def _keep_telling(self) -> None:
        """Exchange counts once a second while there are any. Without Redis each process goes by its own."""
        store = redis.Redis.from_url(_shared_url(), socket_timeout=2.0, socket_connect_timeout=2.0)
        while True:
            self._telling.wait()
            self._telling.clear()
            try:
                self.exchange(store)
                sleep(EXCHANGE_SECONDS)
            except redis.RedisError as error:
                log.warning("%s are counted by each process alone: %s", self._name, error)
                sleep(AWAY_SECONDS)


class StreamCounter:
    """The open streams of each caller in this process, which is what they cost something in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    def open(self, caller: str, limit: int) -> Callable[[], None]:
        """Raises QuotaExceeded for one more than the limit; returns how to say, once, that the stream has ended."""
        with self._lock:
            if self._open[caller] >= limit:
                raise QuotaExceeded(
                    f"More than {limit} streams at the same time. Close one first.", STREAM_RETRY_SECONDS
                )
            self._open[caller] += 1
        return lambda: self._close(caller)

    def _close(self, caller: str) -> None:
        with self._lock:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]


def _shared_url() -> str:
    """Where processes share their counts; empty where there is one process, or no Redis."""
    url: str = settings.CHANNEL_LAYER_URL
    return url if url.startswith("redis") else ""


request_counter = RequestCounter()
act_counter = RequestCounter("acts", "forks, edits and starts of work")
view_counter = RequestCounter("views", "looks at shared sessions")
stream_counter = StreamCounter()
