"""Notifications within this process and between processes: "context C reached event N", "stop run R", "look at the
remote work of run R".

They carry no data. When one is lost, a poll finds the same: the feed's, the leases', or a remote agent's.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

SOON = 0.003  # seconds that a running agent's events wait for newer ones
LATER = 0.025  # that other events wait: a quick agent has answered by then
REACHED, STOP, NUDGE = "reached", "stop", "nudge"  # the groups of notifications
Reached = Callable[[str, int, str, bool], None]
"""Gets a context's id, the index of its newest event, its owner's id ("": unknown), and if a task may have settled."""
ON_ITS_WAY = "+"  # before an index that settles nothing: earlier versions read it as the number that it is
Stop = Callable[[str], None]  # run id
Nudge = Callable[[str], None]  # run id

_lock = threading.Lock()
_callbacks: dict[str, set[Callable[..., None]]] = {REACHED: set(), STOP: set(), NUDGE: set()}
_relay: Relay | None = None


def on_reached(callback: Reached) -> Callable[[], None]:
    """Call `callback`, from any thread, when a context grows; returns how to unregister it."""
    return _register(REACHED, callback)


def on_stop(callback: Stop) -> Callable[[], None]:
    """Call `callback`, from any thread, when a run should stop; returns how to unregister it."""
    return _register(STOP, callback)


def on_nudge(callback: Nudge) -> Callable[[], None]:
    """Call `callback`, from any thread, when a run's remote work changed; returns how to unregister it."""
    return _register(NUDGE, callback)


def _register(group: str, callback: Callable[..., None]) -> Callable[[], None]:
    with _lock:
        _callbacks[group].add(callback)
    if settings.CHANNEL_LAYER_URL.startswith("redis"):  # there may be other processes
        _shared_relay().listen(group)
    return lambda: _callbacks[group].discard(callback)


def stop(run_id: object) -> None:
    """Tell the executor of this run to stop. Call it after the commit; it may block."""
    notify(STOP, str(run_id))


def nudge(run_id: object) -> None:
    """Tell whoever waits for this run's remote work to look at it now. It may block."""
    notify(NUDGE, str(run_id))


def notify(
    group: str,
    key: str,
    index: int = 0,
    owner: str = "",
    settles: bool = True,
    *,
    wait: float = 0.0,
    is_relayed: bool = False,
) -> None:
    """Tell all processes about a context or a run, and of a context which event it reached. Call it after the commit.

    It calls this process's callbacks, and tells the other processes unless it `is_relayed` from one of them: within
    `wait` seconds, of the newest event only. `settles`: a task may have settled, or is gone, so that who waits for that
    looks. It may block, but not fail.
    """
    with _lock:
        callbacks = tuple(_callbacks[group])
    for callback in callbacks:
        if group == REACHED:
            callback(key, index, owner, settles)
        else:
            callback(key)
    if not is_relayed and settings.CHANNEL_LAYER_URL.startswith("redis"):  # there may be other processes
        _shared_relay().send(group, key, index, owner, settles, wait=wait)


def _shared_relay() -> Relay:
    """This process's relay to the others."""
    global _relay
    with _lock:
        if _relay is None:
            on_message = partial(notify, is_relayed=True)
            _relay = Relay(settings.CHANNEL_LAYER_URL, settings.INSTALLATION, on_message)
        return _relay


log = logging.getLogger("parley.notifications")

TIMEOUT_SECONDS = 1.0  # how long an unresponsive Redis can block a commit's caller
RETRY_SECONDS = 1.0  # pause after an error
LISTEN_SECONDS = 10.0  # silence after which a connection is checked

OnMessage = Callable[[str, str, int, str, bool], None]  # group, key, index, owner of the key, `settles`


class Relay:
    """Tells other processes, through Redis, which index each key of a group has reached.

    Channel names begin with `prefix`, because publish/subscribe spans a Redis's databases. `on_message` is called in
    the relay's threads.
    """

    def __init__(self, url: str, prefix: str, on_message: OnMessage) -> None:
        self._name = uuid.uuid4().hex
        self._prefix = prefix
        self._on_message = on_message
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 1),
            health_check_interval=int(LISTEN_SECONDS),
        )
        self._unsent: dict[tuple[str, str], tuple[int, float, str, bool]] = {}  # newest index, due time, the rest
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._retry_at: float | None = None
        self._groups: set[str] = set()
        self._delayed_sender: threading.Thread | None = None
        self._next_due = math.inf

    def send(
        self, group: str, key: str, index: int, owner: str = "", settles: bool = True, *, wait: float = 0.0
    ) -> None:
        """Send `index` within `wait` seconds, unless a newer one replaces it. A key has one `owner`, a single word."""
        due = time.monotonic() + wait
        with self._changed:
            newest, earliest, _, did_settle = self._unsent.get((group, key), (index, due, owner, settles))
            self._unsent[group, key] = max(newest, index), min(earliest, due), owner, settles or did_settle
            if wait:
                self._schedule(due)
        if not wait:
            self._send_due()

    def listen(self, group: str) -> None:
        """Receive a group's messages from now on, across errors."""
        with self._changed:
            if group in self._groups:
                return
            self._groups.add(group)
        threading.Thread(target=self._listen, args=[group], name="notifications-in", daemon=True).start()

    def _schedule(self, due: float) -> None:
        """Run the delayed sender at that time. The caller holds the lock."""
        if self._delayed_sender is None:
            self._delayed_sender = threading.Thread(target=self._send_delayed, name="notifications-out", daemon=True)
            self._delayed_sender.start()
        if due < self._next_due:
            self._next_due = due
            self._changed.notify()

    def _send_delayed(self) -> None:
        while True:
            with self._changed:
                while (left := self._next_due - time.monotonic()) > 0:
                    self._changed.wait(None if left == math.inf else left)
            self._send_due(at_once=False)
            with self._changed:
                self._next_due = min((due for _, due, *_ in self._unsent.values()), default=math.inf)

    def _send_due(self, *, at_once: bool = True) -> None:
        """Send what is due; with `at_once`, leave it to another thread that is sending already."""
        while self._has_due() and self._sending.acquire(blocking=not at_once):
            try:
                for (group, key), index, owner, settles in self._pop_due():
                    # In the first word, because earlier versions know no owners.
                    name = f"{self._name}:{owner}" if owner else self._name
                    self._publish(group, f"{name} {'' if settles else ON_ITS_WAY}{index} {key}")
            finally:
                self._sending.release()

    def _has_due(self) -> bool:
        now = time.monotonic()
        with self._changed:
            return any(due <= now for _, due, *_ in self._unsent.values())

    def _pop_due(self) -> list[tuple[tuple[str, str], int, str, bool]]:
        now = time.monotonic()
        with self._changed:
            found = [
                (group_key, index, owner, settles)
                for group_key, (index, due, owner, settles) in self._unsent.items()
                if due <= now
            ]
            for group_key, *_ in found:
                del self._unsent[group_key]
        return found

    def _publish(self, group: str, text: str) -> None:
        """Logs only an outage's first error and its end: polls replace the lost messages."""
        if self._retry_at is not None and time.monotonic() < self._retry_at:
            return
        try:
            self._redis.publish(f"{self._prefix}.{group}", text)
        except redis.RedisError as error:
            if self._retry_at is None:
                log.warning("notifications are not being delivered to other processes: %s", error)
            self._retry_at = time.monotonic() + RETRY_SECONDS
        else:
            if self._retry_at is not None:
                log.info("notifications are delivered to other processes again")
            self._retry_at = None

    def _listen(self, group: str) -> None:
        while True:
            try:
                with self._redis.pubsub(ignore_subscribe_messages=True) as channel:  # type: ignore[no-untyped-call]
                    channel.subscribe(f"{self._prefix}.{group}")
                    while True:
                        if message := channel.get_message(timeout=LISTEN_SECONDS):
                            self._receive(group, message["data"].decode())
            except Exception as error:
                log.warning("notifications from other processes are not being received: %s", error)
                time.sleep(RETRY_SECONDS)

    def _receive(self, group: str, text: str) -> None:
        sender, index, key = text.split(" ", 2)
        name, _, owner = sender.partition(":")
        if name == self._name:
            return
        settles = not index.startswith(ON_ITS_WAY)
        with self._changed:  # what others have sent need not be sent again
            newest, _, _, did_settle = self._unsent.get((group, key), (math.inf, 0.0, "", False))
            if newest <= int(index) and settles >= did_settle:
                del self._unsent[group, key]
        self._on_message(group, key, int(index), owner, settles)
