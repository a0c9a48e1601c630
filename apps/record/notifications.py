"""Wake-ups: "context C reached event N", "stop run R", "look what became of run R elsewhere", within this process and
between processes.

They carry no truth. A lost one is made good by the feed's poll, by the runs' heartbeat, by asking now and then.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

SOON = 0.003  # seconds that what an agent says waits for something newer
LATER = 0.025  # and what else is recorded: an agent that is quick has answered by then
REACHED, STOP, NUDGE = "reached", "stop", "nudge"  # the groups of wake-ups
Reached = Callable[[str, int, str], None]  # context id, index of its newest event, owner's id ("": not said)
Stop = Callable[[str], None]  # run id
Nudge = Callable[[str], None]  # run id

_lock = threading.Lock()
_callbacks: dict[str, set[Callable[..., None]]] = {REACHED: set(), STOP: set(), NUDGE: set()}
_relay: Relay | None = None


def on_reached(callback: Reached) -> Callable[[], None]:
    """Have `callback` called, from any thread, when a context grows; returns how to end that."""
    return _register(REACHED, callback)


def on_stop(callback: Stop) -> Callable[[], None]:
    """Have `callback` called, from any thread, when a run is to stop; returns how to end that."""
    return _register(STOP, callback)


def on_nudge(callback: Nudge) -> Callable[[], None]:
    """Have `callback` called, from any thread, when something happened to a run elsewhere; returns how to end that."""
    return _register(NUDGE, callback)


def _register(group: str, callback: Callable[..., None]) -> Callable[[], None]:
    with _lock:
        _callbacks[group].add(callback)
    if settings.CHANNEL_LAYER_URL.startswith("redis"):  # there may be other processes
        _shared_relay().listen(group)
    return lambda: _callbacks[group].discard(callback)


def announce(context_id: object, index: int, owner: int | None = None, *, wait: float = 0.0) -> None:
    """Say that a context, of that owner, reached an event. Call it after the commit, where the thread may wait.

    It does not fail. Other processes hear of it at most `wait` seconds later, and of the newest event alone that is
    said by then.
    """
    _send(REACHED, str(context_id), index, "" if owner is None else str(owner), wait)


def stop(run_id: object) -> None:
    """Say that whoever executes this run should stop. Call it after the commit, where the thread may wait."""
    _send(STOP, str(run_id))


def nudge(run_id: object) -> None:
    """Say that whoever waits for the remote work of this run should look at it now. The thread may have to wait."""
    _send(NUDGE, str(run_id))


def _send(group: str, key: str, index: int = 0, owner: str = "", wait: float = 0.0) -> None:
    _deliver(group, key, index, owner)
    if settings.CHANNEL_LAYER_URL.startswith("redis"):  # there may be other processes
        _shared_relay().send(group, key, index, owner, wait=wait)


def _deliver(group: str, key: str, index: int, owner: str = "") -> None:
    """Hand a notification to the callbacks of this process."""
    with _lock:
        callbacks = tuple(_callbacks[group])
    for callback in callbacks:
        if group == REACHED:
            callback(key, index, owner)
        else:
            callback(key)


def _shared_relay() -> Relay:
    """This process's relay to the others."""
    global _relay
    with _lock:
        if _relay is None:
            _relay = Relay(settings.CHANNEL_LAYER_URL, settings.INSTALLATION, _deliver)
        return _relay


log = logging.getLogger("parley.wakeups")

TIMEOUT_SECONDS = 1.0  # for which a Redis that does not answer holds up who commits
RETRY_SECONDS = 1.0  # how long it is then left alone
LISTEN_SECONDS = 10.0  # a line on which nothing was heard for so long is looked after

OnMessage = Callable[[str, str, int, str], None]  # group, key, index, whose the key is


class Relay:
    """Tells the other processes which index each key of a group has reached.

    `url` is Redis'; names begin with `prefix`, because all of Redis' databases hear each other. `heard` is called, from
    the relay's threads, with what others said to the groups that are listened to.
    """

    def __init__(self, url: str, prefix: str, heard: OnMessage) -> None:
        self._name = uuid.uuid4().hex
        self._prefix = prefix
        self._heard = heard
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 1),
            health_check_interval=int(LISTEN_SECONDS),
        )
        # The newest index, until when it may wait, and whose the key is.
        self._waiting: dict[tuple[str, str], tuple[int, float, str]] = {}
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._away_until: float | None = None
        self._listening: set[str] = set()
        self._patient: threading.Thread | None = None
        self._wakes_at = math.inf

    def send(self, group: str, key: str, index: int, owner: str = "", *, wait: float = 0.0) -> None:
        """Say that `key` has reached `index`, or what it has reached `wait` seconds later if nobody says so before.

        `owner` says whose the key is, in a word; it is always the same for a key.
        """
        due = time.monotonic() + wait
        with self._changed:
            newest, until, _ = self._waiting.get((group, key), (index, due, owner))
            self._waiting[group, key] = max(newest, index), min(until, due), owner
            if wait:
                self._wake_at(due)
        if not wait:
            self._send_due()

    def listen(self, group: str) -> None:
        """Hear what is said to a group from now on, whatever becomes of Redis."""
        with self._changed:
            if group in self._listening:
                return
            self._listening.add(group)
        threading.Thread(target=self._listen, args=[group], name="wakeups-in", daemon=True).start()

    def _wake_at(self, due: float) -> None:
        """Have the thread that waits awake by then. Called with the lock."""
        if self._patient is None:
            self._patient = threading.Thread(target=self._wait_and_send, name="wakeups-out", daemon=True)
            self._patient.start()
        if due < self._wakes_at:
            self._wakes_at = due
            self._changed.notify()

    def _wait_and_send(self) -> None:
        while True:
            with self._changed:
                while (left := self._wakes_at - time.monotonic()) > 0:
                    self._changed.wait(None if left == math.inf else left)
            self._send_due(at_once=False)
            with self._changed:
                self._wakes_at = min((due for _, due, _ in self._waiting.values()), default=math.inf)

    def _send_due(self, *, at_once: bool = True) -> None:
        """Send what is due; with `at_once` not if another thread is at it, which then sends this too."""
        while self._has_due() and self._sending.acquire(blocking=not at_once):
            try:
                for (group, key), index, owner in self._take_due():
                    # Beside the name, where processes of the version before, which knew no owners, do not look.
                    name = f"{self._name}:{owner}" if owner else self._name
                    self._publish(group, f"{name} {index} {key}")
            finally:
                self._sending.release()

    def _has_due(self) -> bool:
        now = time.monotonic()
        with self._changed:
            return any(due <= now for _, due, _ in self._waiting.values())

    def _take_due(self) -> list[tuple[tuple[str, str], int, str]]:
        now = time.monotonic()
        with self._changed:
            due = [(place, index, owner) for place, (index, until, owner) in self._waiting.items() if until <= now]
            for place, _, _ in due:
                del self._waiting[place]
        return due

    def _publish(self, group: str, text: str) -> None:
        """Errors are logged when Redis goes and when it is back, not for each wake-up in between: readers poll then."""
        if self._away_until is not None and time.monotonic() < self._away_until:
            return
        try:
            self._redis.publish(f"{self._prefix}.{group}", text)
        except redis.RedisError as error:
            if self._away_until is None:
                log.warning("wake-ups are not being delivered to other processes: %s", error)
            self._away_until = time.monotonic() + RETRY_SECONDS
        else:
            if self._away_until is not None:
                log.info("wake-ups are delivered to other processes again")
            self._away_until = None

    def _listen(self, group: str) -> None:
        while True:
            try:
                with self._redis.pubsub(ignore_subscribe_messages=True) as line:  # type: ignore[no-untyped-call]
                    line.subscribe(f"{self._prefix}.{group}")
                    while True:
                        if message := line.get_message(timeout=LISTEN_SECONDS):
                            self._take_in(group, message["data"].decode())
            except Exception as error:
                log.warning("wake-ups from other processes are not being received: %s", error)
                time.sleep(RETRY_SECONDS)

    def _take_in(self, group: str, text: str) -> None:
        sender, index, key = text.split(" ", 2)
        name, _, owner = sender.partition(":")
        if name == self._name:
            return
        with self._changed:  # what others say already need not be said
            if self._waiting.get((group, key), (int(index) + 1, 0.0, ""))[0] <= int(index):
                del self._waiting[group, key]
        self._heard(group, key, int(index), owner)
