"""Wake-ups: "context C reached event N", "stop run R", "look what became of run R elsewhere", within this process and
between processes.

They carry no truth. A lost one is made good by the feed's poll, by the runs' heartbeat, by asking now and then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from django.conf import settings

from apps.record.redis_pubsub import Relay

SOON = 0.003  # seconds that what an agent says waits for something newer
LATER = 0.025  # and what else is recorded: an agent that is quick has answered by then
REACHED, STOP, NUDGE = "reached", "stop", "nudge"  # the groups of wake-ups
Reached = Callable[[str, int, str], None]  # context id, index of its newest event, owner's id ("": not said)
Stop = Callable[[str], None]  # run id
Nudge = Callable[[str], None]  # run id

_lock = threading.Lock()
_reached: set[Reached] = set()
_stop: set[Stop] = set()
_nudge: set[Nudge] = set()
_relay: Relay | None = None


def on_reached(callback: Reached) -> Callable[[], None]:
    """Have `callback` called, from any thread, when a context grows; returns how to end that."""
    return _register(_reached, callback, REACHED)


def on_stop(callback: Stop) -> Callable[[], None]:
    """Have `callback` called, from any thread, when a run is to stop; returns how to end that."""
    return _register(_stop, callback, STOP)


def on_nudge(callback: Nudge) -> Callable[[], None]:
    """Have `callback` called, from any thread, when something happened to a run elsewhere; returns how to end that."""
    return _register(_nudge, callback, NUDGE)


def _register[T](registry: set[T], callback: T, group: str) -> Callable[[], None]:
    with _lock:
        registry.add(callback)
    if relay := _shared_relay():
        relay.listen(group)
    return lambda: registry.discard(callback)


def announce(context_id: object, index: int, owner: int | None = None, *, wait: float = 0.0) -> None:
    """Say that a context, of that owner, reached an event. Call it after the commit, where the thread may wait.

    It does not fail. Other processes hear of it at most `wait` seconds later, and of the newest event alone that is
    said by then.
    """
    whose = "" if owner is None else str(owner)
    _deliver(REACHED, str(context_id), index, whose)
    if relay := _shared_relay():
        relay.send(REACHED, str(context_id), index, whose, wait=wait)


def stop(run_id: object) -> None:
    """Say that whoever executes this run should stop. Call it after the commit, where the thread may wait."""
    _deliver(STOP, str(run_id), 0)
    if relay := _shared_relay():
        relay.send(STOP, str(run_id), 0)


def nudge(run_id: object) -> None:
    """Say that whoever waits for the remote work of this run should look at it now. The thread may have to wait."""
    _deliver(NUDGE, str(run_id), 0)
    if relay := _shared_relay():
        relay.send(NUDGE, str(run_id), 0)


def _deliver(group: str, key: str, index: int, owner: str = "") -> None:
    """Hand a wake-up to the callbacks of this process."""
    with _lock:
        reached, told = tuple(_reached), tuple(_nudge if group == NUDGE else _stop)
    if group == REACHED:
        for reached_callback in reached:
            reached_callback(key, index, owner)
    else:
        for callback in told:
            callback(key)


def _shared_relay() -> Relay | None:
    """This process's relay to the others; None where it is alone."""
    global _relay
    if not settings.CHANNEL_LAYER_URL.startswith("redis"):
        return None
    with _lock:
        if _relay is None:
            _relay = Relay(settings.CHANNEL_LAYER_URL, settings.INSTALLATION, _deliver)
        return _relay
