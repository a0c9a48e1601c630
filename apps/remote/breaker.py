"""The circuit breaker: who calls an agent asks first (`admit`) and says afterwards what came of it.

    breaker.admit(agent)                 # raises CircuitOpen
    try: ...
    except RemoteError as error: breaker.failed(agent, error)
    else: breaker.succeeded(agent)       # as soon as the agent has answered anything

Failures are rows, which all processes share. An agent that does not fail costs nothing: a process knows by one
statement every `FRESH_SECONDS` which agents fail at all. Clocks of machines may differ by seconds; a trial is then that
much early.
"""

from __future__ import annotations

import datetime
import logging
import math
import threading
import time
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from apps.agents.models import Agent, AgentStats
from apps.features.health import observing
from apps.remote.authenticating.errors import TokenUnavailable
from apps.remote.errors import CircuitOpen, Misbehaved, Overloaded, Refused, RemoteError, Unauthorized
from apps.remote.models import Breaker, Checkup
from db.statements import database_time
from db.transactions import transacting

log = logging.getLogger("parley.remote")

FRESH_SECONDS = 2.0  # how long what this process knows of failing agents is good
LONGEST_ERROR = 500  # characters that are kept
CLOSED: Mapping[str, Any] = {
    "failures": 0, "failing_since": None, "opened_at": None, "openings": 0, "retry_at": None, "trial_at": None,
}  # fmt: skip

_lock = threading.Lock()
_failing: dict[int, Breaker] = {}
_fresh_until = 0.0  # by the monotonic clock


def admit(agent: Agent) -> None:
    """Let a call to the agent pass, or the one that tries it again. Raises CircuitOpen."""
    breaker = _known().get(agent.pk)
    if breaker is None or breaker.opened_at is None or breaker.retry_at is None:
        return
    now = timezone.now()
    if now < breaker.retry_at or not _may_try(breaker, now):
        raise _refusal(agent, breaker, now)
    log.info("agent %s is tried again", agent.slug)


def succeeded(agent: Agent) -> None:
    """The agent answered a call, whatever it said: nothing is held against it any more."""
    if agent.pk in _known():
        close(agent)


def failed(agent: Agent, error: RemoteError) -> None:
    """A call failed. One that is the caller's own fault shows that the agent answers, and is none here."""
    if not is_held_against(error):
        if isinstance(error, Refused) or (isinstance(error, Unauthorized) and error.is_answer):
            succeeded(agent)
        return
    now = timezone.now()
    with transacting():
        if not Agent.objects.filter(pk=agent.pk).exists():
            return
        breaker, _ = Breaker.objects.select_for_update().get_or_create(agent=agent)
        opened = _count(breaker, now, error)
        breaker.save()
    forget()
    if opened:
        log.warning("calls to agent %s are stopped until %s: %s", agent.slug, breaker.retry_at, breaker.error)
        _note_health(agent)


def close(agent: Agent) -> None:
    """Let calls through again: because one succeeded, or because an operator says so."""
    was_open = Breaker.objects.filter(agent=agent, opened_at__isnull=False).exists()
    Breaker.objects.filter(agent=agent).update(**CLOSED)
    forget()
    if was_open:
        log.info("calls to agent %s go through again", agent.slug)
        Checkup.objects.filter(agent=agent).update(next_check_at=database_time())  # what checks found may be old by now
        _note_health(agent)


def forget() -> None:
    """Read anew, at the next question, which agents fail."""
    global _fresh_until
    with _lock:
        _fresh_until = 0.0


def is_held_against(error: RemoteError) -> bool:
    """Does it say something about the agent, or only about the call?"""
    is_other = isinstance(error, CircuitOpen | TokenUnavailable)  # the agent was not asked
    return (error.is_transient or isinstance(error, Misbehaved)) and not is_other


def _known() -> Mapping[int, Breaker]:
    """The breakers of agents that failed lately, or are not called."""
    global _failing, _fresh_until
    with _lock:
        if time.monotonic() < _fresh_until:
            return _failing
    until = time.monotonic() + FRESH_SECONDS
    failing = Q(opened_at__isnull=False) | Q(failing_since__gt=timezone.now() - _window())
    found = {breaker.pk: breaker for breaker in Breaker.objects.filter(failing)}
    with _lock:
        _failing, _fresh_until = found, until
    return found


def _may_try(breaker: Breaker, now: datetime.datetime) -> bool:
    """Take the trial, before another call does. One of which nothing is heard any more leaves room for the next."""
    first, _ = settings.REMOTE_BREAKER_SECONDS
    mine = Breaker.objects.filter(pk=breaker.pk, retry_at=breaker.retry_at, opened_at=breaker.opened_at)
    taken = mine.update(trial_at=now, retry_at=now + datetime.timedelta(seconds=first))
    forget()
    return bool(taken)


def _count(breaker: Breaker, now: datetime.datetime, error: RemoteError) -> bool:
    """Add a failure; did it open the breaker, for the first time or again?"""
    breaker.error = str(error)[:LONGEST_ERROR]
    if breaker.opened_at is not None and breaker.trial_at is None:
        return False  # a call that began before it was opened
    if breaker.failing_since is None or (breaker.opened_at is None and breaker.failing_since < now - _window()):
        breaker.failures, breaker.failing_since = 0, now
    breaker.failures += 1
    if breaker.opened_at is None and breaker.failures < settings.REMOTE_BREAKER_FAILURES:
        return False
    breaker.openings += 1
    breaker.opened_at = breaker.opened_at or now
    breaker.retry_at, breaker.trial_at = now + _wait(breaker.openings, error), None
    return True


def _wait(openings: int, error: RemoteError) -> datetime.timedelta:
    """Twice as long each time, up to a bound; as long as the agent itself asks for, within the same bound."""
    first, longest = settings.REMOTE_BREAKER_SECONDS
    asked = error.retry_after or 0.0 if isinstance(error, Overloaded) else 0.0
    return datetime.timedelta(seconds=min(longest, max(asked, first * 2 ** min(openings - 1, 30))))


def _window() -> datetime.timedelta:
    return datetime.timedelta(seconds=settings.REMOTE_BREAKER_WINDOW_SECONDS)


def _refusal(agent: Agent, breaker: Breaker, now: datetime.datetime) -> CircuitOpen:
    left = (breaker.retry_at - now).total_seconds() if breaker.retry_at else 0.0
    failed = f"{agent.name} failed again and again"
    if breaker.trial_at is not None or left <= 0:
        return CircuitOpen(f"{failed} and is being tried by another call now. Try again in a moment.", retry_after=1.0)
    return CircuitOpen(f"{failed} and is left alone for now. Try again in {math.ceil(left)} s.", retry_after=left)


def _note_health(agent: Agent) -> None:
    """Say at once in the registry how the agent is."""
    current = Agent.objects.select_related("current_version").filter(pk=agent.pk).first()
    if current is not None:
        observing.note(current, AgentStats.objects.filter(agent=agent).first())
