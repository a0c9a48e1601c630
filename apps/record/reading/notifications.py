"""Notifications within this process and between processes: "context C reached event N", "stop run R", "look at the
remote work of run R".

They carry no data. When one is lost, a poll finds the same: the feed's, the leases', or a remote agent's.

What a context reached goes through a channel of few contexts, and one of its owner. A process listens to the channels
of what is followed there. The ids of the contexts that it makes itself have a channel that it listens to already.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

AT_ONCE = 0.0001  # seconds in which a thread of its own sends something
SOON = 0.003  # seconds that a running agent's events wait for newer ones
LATER = 0.025  # that other events wait: a quick agent has answered by then
REACHED, STOP, NUDGE = "reached", "stop", "nudge"  # the groups of notifications
Reached = Callable[[str, int, str, bool], None]
"""Gets a context's id, the index of its newest event, its owner's id ("": unknown), and if a task may have settled."""
ON_ITS_WAY = "+"  # before an index that settles nothing: earlier versions read it as the number that it is
Stop = Callable[[str], None]  # run id
Nudge = Callable[[str], None]  # run id

CHANNEL_DIGITS = 5  # hexadecimal ones: the contexts whose ids begin alike share a channel

_lock = threading.Lock()
_callbacks: dict[str, set[Callable[..., None]]] = {REACHED: set(), STOP: set(), NUDGE: set()}
_relay: Relay | None = None
_new_ids = ""  # how the ids of this process's new contexts begin
_at_once: Future[float] = Future()
_at_once.set_result(0.0)


def on_reached(callback: Reached) -> Callable[[], None]:
    """Call `callback`, from any thread, when a context grows that is followed; returns how to unregister it."""
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
    if _has_others():
        _shared_relay().listen(group)  # also of earlier versions, who tell what was reached in one channel
    return lambda: _callbacks[group].discard(callback)


def channel_of(topic: str) -> str:
    """Who tells of a topic: a context's id, or `owner N`."""
    return f"{REACHED}.{topic if topic.startswith('owner ') else topic[:CHANNEL_DIGITS]}"


def listen(channel: str) -> Future[float]:
    """Hear what other processes say in a channel, until `leave`. Done, with the monotonic time, once it is heard."""
    return _shared_relay().listen(channel) if _has_others() else _at_once


def leave(channel: str) -> None:
    """Undo one `listen`."""
    if _has_others():
        _shared_relay().leave(channel)


def begin_new_ids_as(context_id: str) -> None:
    """Give new contexts the channel of this id, which this process listens to."""
    global _new_ids
    _new_ids = context_id[:CHANNEL_DIGITS]


def new_context_id() -> uuid.UUID:
    """An id for a context that is probably followed here."""
    return uuid.UUID(_new_ids + uuid.uuid4().hex[len(_new_ids) :])


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
    if not is_relayed and _has_others():
        _shared_relay().send(group, key, index, owner, settles, wait=wait)


def _has_others() -> bool:
    """May there be other processes?"""
    return settings.CHANNEL_LAYER_URL.startswith("redis")


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
    the relay's threads. One thread listens, because redis-py's subscriptions belong to one thread; it is woken by a
    message to itself.
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
        self._heard: dict[str, Future[float]] = {}  # by channel, since when
        self._listeners = Counter[str]()  # of each channel
        self._is_changed = True  # since Redis was asked for channels
        self._listener: threading.Thread | None = None
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

    def listen(self, channel: str) -> Future[float]:
        """Receive a channel's messages, across errors, until each call had its `leave`; done when Redis confirms it."""
        with self._changed:
            self._listeners[channel] += 1
            if (heard := self._heard.get(channel)) is not None:
                return heard
            heard = self._heard[channel] = Future()
            if self._listener is None:
                self._listener = threading.Thread(target=self._listen, name="notifications-in", daemon=True)
                self._listener.start()
        self._wake_listener()
        return heard

    def leave(self, channel: str) -> None:
        with self._changed:
            self._listeners[channel] -= 1
            if self._listeners[channel]:
                return
            del self._listeners[channel], self._heard[channel]
        self._wake_listener()

    def _wake_listener(self) -> None:
        self._is_changed = True
        self.send(self._name, "", 0, wait=AT_ONCE)

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
                self._publish(*(message for due in self._pop_due() for message in self._messages(*due)))
            finally:
                self._sending.release()

    def _messages(self, group_key: tuple[str, str], index: int, owner: str, settles: bool) -> Iterator[tuple[str, str]]:
        """Channels, and what is told there."""
        group, key = group_key
        text = f"{'' if settles else ON_ITS_WAY}{index} {key}"
        yield channel_of(key) if group == REACHED else group, f"{self._name} {text}"
        if owner:
            yield channel_of(f"owner {owner}"), f"{self._name}:{owner} {text}"

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

    def _publish(self, *messages: tuple[str, str]) -> None:
        """Logs only an outage's first error and its end: polls replace the lost messages."""
        if self._retry_at is not None and time.monotonic() < self._retry_at:
            return
        commands = [("PUBLISH", f"{self._prefix}.{channel}", text) for channel, text in messages]
        try:
            connection = self._redis.connection_pool.get_connection()
            try:  # a pipeline does the same in twice the time
                packed = connection.pack_commands(commands)  # type: ignore[no-untyped-call]
                connection.send_packed_command(packed)  # type: ignore[no-untyped-call]
                for _ in commands:
                    connection.read_response()
            finally:
                self._redis.connection_pool.release(connection)
        except redis.RedisError as error:
            if self._retry_at is None:
                log.warning("notifications are not being delivered to other processes: %s", error)
            self._retry_at = time.monotonic() + RETRY_SECONDS
        else:
            if self._retry_at is not None:
                log.info("notifications are delivered to other processes again")
            self._retry_at = None

    def _listen(self) -> None:
        while True:
            try:
                with self._redis.pubsub() as subscriptions:  # type: ignore[no-untyped-call]
                    subscriptions.subscribe(f"{self._prefix}.{self._name}")
                    asked, self._is_changed = dict[str, Future[float]](), True
                    while True:
                        asked = self._adjust(subscriptions, asked)
                        if message := subscriptions.get_message(timeout=RETRY_SECONDS):
                            self._receive(message)
            except Exception as error:
                log.warning("notifications from other processes are not being received: %s", error)
                time.sleep(RETRY_SECONDS)

    def _adjust(self, subscriptions: redis.client.PubSub, asked: dict[str, Future[float]]) -> dict[str, Future[float]]:
        """Subscribe to what is listened to now, and to nothing else; gives what was asked for."""
        if not self._is_changed:
            return asked
        with self._changed:
            self._is_changed, heard = False, dict(self._heard)
        if old := asked.keys() - heard.keys():
            subscriptions.unsubscribe(*(f"{self._prefix}.{channel}" for channel in old))  # type: ignore[no-untyped-call]
        if new := [channel for channel, since in heard.items() if asked.get(channel) is not since]:
            subscriptions.subscribe(*(f"{self._prefix}.{channel}" for channel in new))
        return heard

    def _receive(self, message: dict[str, Any]) -> None:
        channel = message["channel"].decode().removeprefix(f"{self._prefix}.")
        if message["type"] == "message":
            self._receive_text(channel.partition(".")[0], message["data"].decode())
        elif message["type"] == "subscribe":
            with self._changed:
                heard = self._heard.get(channel)
            if heard is not None and not heard.done():
                heard.set_result(time.monotonic())

    def _receive_text(self, group: str, text: str) -> None:
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
