"""The circuit breaker: ask `admit` before a call and report the result afterwards.

    circuit_breaker.admit(agent)                 # raises CircuitOpen
    try: ...
    except RemoteError as error: circuit_breaker.record_failure(agent, error)
    else: circuit_breaker.note_success(agent)  # as soon as the agent has answered anything

Failures are rows that all processes share. A process reads them every CACHE_SECONDS, so calls need no query.
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
from apps.health import monitoring
from apps.remote.errors import CircuitOpen, Misbehaved, Overloaded, Refused, RemoteError, TokenUnavailable, Unauthorized
from apps.remote.models import Breaker, Checkup
from parley import db
from parley.db.sql import database_time, write_transaction
from parley.telemetry import metrics

log = logging.getLogger("parley.remote")

CACHE_SECONDS = 2.0
LONGEST_ERROR = 500  # characters
CLOSED_FIELDS: Mapping[str, Any] = {
    "failures": 0, "failing_since": None, "opened_at": None, "openings": 0, "retry_at": None, "trial_at": None,
}  # fmt: skip

_lock = threading.Lock()
_failing: dict[int, Breaker] = {}
_cached_until = 0.0  # monotonic time
_cache_version = 0


def admit(agent: Agent) -> None:
    """Let a call, or the one trial call of an open breaker, pass. Raises CircuitOpen."""
    breaker = _failing_breakers().get(agent.pk)
    if breaker is None or breaker.opened_at is None or breaker.retry_at is None:
        return
    now = timezone.now()
    if now < breaker.retry_at or not _claim_trial(breaker, now):
        raise _circuit_open(agent, breaker, now)
    log.info("agent %s gets a trial call", agent.slug)


def record_success(agent: Agent) -> None:
    """The agent answered a call: forget its failures."""
    metrics.REMOTE_CALLS[agent.slug, "answered"].inc()
    _forget_failures(agent)


def note_success(agent: Agent) -> None:
    """`record_success` for event loops, which do not wait for it."""
    if time.monotonic() < _cached_until and agent.pk not in _failing:
        metrics.REMOTE_CALLS[agent.slug, "answered"].inc()
    else:
        db.later(record_success, agent)


def _forget_failures(agent: Agent) -> None:
    if agent.pk in _failing_breakers():
        close(agent)


def record_failure(agent: Agent, error: RemoteError) -> None:
    """Count a failed call, unless the failure shows that the agent answers."""
    metrics.REMOTE_CALLS[agent.slug, error.code].inc()
    if not counts_as_failure(error):
        if isinstance(error, Refused) or (isinstance(error, Unauthorized) and error.is_answer):
            _forget_failures(agent)
        return
    now = timezone.now()
    with write_transaction():
        if not Agent.objects.filter(pk=agent.pk).exists():
            return
        breaker, _ = Breaker.objects.select_for_update().get_or_create(agent=agent)
        opened = _count_failure(breaker, now, error)
        breaker.save()
    clear_cache()
    if opened:
        log.warning("calls to agent %s are stopped until %s: %s", agent.slug, breaker.retry_at, error)
        _note_health(agent)


def close(agent: Agent) -> None:
    """Let calls through again, after a success or at an operator's request."""
    was_open = Breaker.objects.filter(agent=agent, opened_at__isnull=False).exists()
    Breaker.objects.filter(agent=agent).update(**CLOSED_FIELDS)
    clear_cache()
    if was_open:
        log.info("calls to agent %s go through again", agent.slug)
        Checkup.objects.filter(agent=agent).update(next_check_at=database_time())  # the last check may be outdated
        _note_health(agent)


def clear_cache() -> None:
    global _cached_until, _cache_version
    with _lock:
        _cached_until = 0.0
        _cache_version += 1


def counts_as_failure(error: RemoteError) -> bool:
    was_not_called = isinstance(error, CircuitOpen | TokenUnavailable)
    return (error.is_transient or isinstance(error, Misbehaved)) and not was_not_called


def _failing_breakers() -> Mapping[int, Breaker]:
    global _failing, _cached_until
    with _lock:
        if time.monotonic() < _cached_until:
            return _failing
        version = _cache_version
    until = time.monotonic() + CACHE_SECONDS
    failing = Q(opened_at__isnull=False) | Q(failing_since__gt=timezone.now() - _window())
    found = {breaker.pk: breaker for breaker in Breaker.objects.filter(failing)}
    with _lock:
        if version == _cache_version:  # otherwise these rows may be outdated
            _failing, _cached_until = found, until
    return found


def _claim_trial(breaker: Breaker, now: datetime.datetime) -> bool:
    """Compare-and-swap: only one call is the trial. If it never ends, a later call may claim the next one."""
    first, _ = settings.REMOTE_BREAKER_SECONDS
    unclaimed = Breaker.objects.filter(pk=breaker.pk, retry_at=breaker.retry_at, opened_at=breaker.opened_at)
    claimed = unclaimed.update(trial_at=now, retry_at=now + datetime.timedelta(seconds=first))
    clear_cache()
    return bool(claimed)


def _count_failure(breaker: Breaker, now: datetime.datetime, error: RemoteError) -> bool:
    """Count a failure; True if it opened the breaker (again)."""
    breaker.error = str(error)[:LONGEST_ERROR]
    if breaker.opened_at is not None and breaker.trial_at is None:
        return False  # the call began before the breaker opened
    if breaker.failing_since is None or (breaker.opened_at is None and breaker.failing_since < now - _window()):
        breaker.failures, breaker.failing_since = 0, now
    breaker.failures += 1
    if breaker.opened_at is None and breaker.failures < settings.REMOTE_BREAKER_FAILURES:
        return False
    breaker.openings += 1
    breaker.opened_at = breaker.opened_at or now
    breaker.retry_at, breaker.trial_at = now + _open_time(breaker.openings, error), None
    return True


def _open_time(openings: int, error: RemoteError) -> datetime.timedelta:
    """Doubles each time, or follows the agent's Retry-After, up to a limit."""
    first, longest = settings.REMOTE_BREAKER_SECONDS
    asked = error.retry_after or 0.0 if isinstance(error, Overloaded) else 0.0
    return datetime.timedelta(seconds=min(longest, max(asked, first * 2 ** min(openings - 1, 30))))


def _window() -> datetime.timedelta:
    return datetime.timedelta(seconds=settings.REMOTE_BREAKER_WINDOW_SECONDS)


def _circuit_open(agent: Agent, breaker: Breaker, now: datetime.datetime) -> CircuitOpen:
    left = (breaker.retry_at - now).total_seconds() if breaker.retry_at else 0.0
    failed = f"{agent.name} failed again and again"
    if breaker.trial_at is not None or left <= 0:
        return CircuitOpen(f"{failed} and is being tried by another call now. Try again in a moment.", retry_after=1.0)
    return CircuitOpen(f"{failed} and is left alone for now. Try again in {math.ceil(left)} s.", retry_after=left)


def _note_health(agent: Agent) -> None:
    current = Agent.objects.select_related("current_version").filter(pk=agent.pk).first()
    if current is not None:
        monitoring.record_health(current, AgentStats.objects.filter(agent=agent).first())
