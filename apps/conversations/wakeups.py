"""Wake-ups: "context C reached event N" and "stop run R", within this process and between processes.

They carry no truth. A lost one is made good by the feed's poll and by the runs' heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from channels.layers import get_channel_layer
from django.conf import settings

log = logging.getLogger("parley.wakeups")

LINGER_SECONDS = 0.003  # how long what is not urgent waits for something newer
REACHED, STOP = "parley.reached", "parley.stop"  # the groups of the channel layer
Reached = Callable[[str, int], None]  # context id, index of its newest event
Stop = Callable[[str], None]  # run id

_lock = threading.Lock()
_reached: set[Reached] = set()
_stop: set[Stop] = set()
_courier: Courier | None = None


def on_reached(callback: Reached) -> Callable[[], None]:
    """Have `callback` called, from any thread, when a context grows; returns how to end that."""
    return _register(_reached, callback, REACHED)


def on_stop(callback: Stop) -> Callable[[], None]:
    """Have `callback` called, from any thread, when a run is to stop; returns how to end that."""
    return _register(_stop, callback, STOP)


def _register[T](registry: set[T], callback: T, group: str) -> Callable[[], None]:
    with _lock:
        registry.add(callback)
    if courier := _shared_courier():
        courier.listen(group)
    return lambda: registry.discard(callback)


def announce(context_id: object, index: int, *, urgent: bool = True) -> None:
    """Say that a context reached an event. Call it after the commit; it neither waits nor fails.

    What is not urgent reaches other processes a little later, and only if nothing newer is said of the context by then.
    """
    message = {"context": str(context_id), "index": index}
    _deliver(message)
    if courier := _shared_courier():
        courier.send(REACHED, str(context_id), message, urgent=urgent)


def stop(run_id: object) -> None:
    """Say that whoever executes this run should stop. Call it after the commit; it neither waits nor fails."""
    message = {"stop": str(run_id)}
    _deliver(message)
    if courier := _shared_courier():
        courier.send(STOP, str(run_id), message)


def _deliver(message: dict[str, Any]) -> None:
    """Hand a message to the callbacks of this process."""
    with _lock:
        reached, stopped = tuple(_reached), tuple(_stop)
    if "stop" in message:
        for stop_callback in stopped:
            stop_callback(message["stop"])
    else:
        for reached_callback in reached:
            reached_callback(message["context"], message["index"])


def _shared_courier() -> Courier | None:
    """This process's courier to the others; None where the channel layer reaches no further than this process."""
    global _courier
    if "InMemory" in settings.CHANNEL_LAYERS["default"]["BACKEND"]:
        return None
    with _lock:
        if _courier is None:
            _courier = Courier()
        return _courier


class Courier:
    """Carries wake-ups between processes by the channel layer, on an event loop and a thread of its own.

    What waits to be sent is kept per key, the newest only, so that a stream of tokens is announced no faster than the
    layer takes it.
    """

    def __init__(self) -> None:
        self._name = uuid.uuid4().hex
        self._waiting: dict[tuple[str, str], dict[str, Any]] = {}
        self._sending = False
        self._hurry = asyncio.Event()
        self._delivers = True  # as far as the last sending shows
        self._listening: set[str] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="wakeups", daemon=True).start()

    def send(self, group: str, key: str, message: dict[str, Any], *, urgent: bool = True) -> None:
        with _lock:
            self._waiting[group, key] = message
            was_sending, self._sending = self._sending, True
        if urgent:
            self._loop.call_soon_threadsafe(self._hurry.set)
        if not was_sending:
            asyncio.run_coroutine_threadsafe(self._send_waiting(), self._loop)

    def listen(self, group: str) -> None:
        with _lock:
            if group in self._listening:
                return
            self._listening.add(group)
        asyncio.run_coroutine_threadsafe(self._receive(group), self._loop)

    async def _send_waiting(self) -> None:
        while True:
            with _lock:
                if not self._waiting:
                    self._sending = False
                    return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), LINGER_SECONDS)
            self._hurry.clear()
            with _lock:
                messages, self._waiting = self._waiting, {}
            try:
                for (group, _), message in messages.items():
                    await get_channel_layer().group_send(group, {"type": "wakeup", "from": self._name, **message})
            except Exception as error:  # the layer is away: readers poll meanwhile
                self._note(delivers=False, error=error)
            else:
                self._note(delivers=True)

    def _note(self, *, delivers: bool, error: Exception | None = None) -> None:
        """Log it when the layer goes and when it is back, not for each wake-up in between."""
        if delivers != self._delivers:
            self._delivers = delivers
            if delivers:
                log.info("wake-ups are delivered to other processes again")
            else:
                log.warning("wake-ups are not being delivered to other processes: %s", error)

    async def _receive(self, group: str) -> None:
        """Take in the others' wake-ups for as long as the process lives, whatever becomes of the layer."""
        while True:
            try:
                layer = get_channel_layer()
                channel = await layer.new_channel()
                await layer.group_add(group, channel)
                while True:
                    message = await layer.receive(channel)
                    if message["from"] != self._name:
                        _deliver(message)
            except Exception as error:
                log.warning("wake-ups from other processes are not being received: %s", error)
                await asyncio.sleep(1)
