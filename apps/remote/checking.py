"""Which remote agents are to be checked, what is kept of it, and what it says about their health.

A round of an agent is taken by moving its `next_check_at` on, so one process has it. Nothing needs to be given back: a
process that dies in it leaves the agent to the next round.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import F

from apps.agents.models import Agent, AgentStats
from apps.features.health import observing
from apps.features.health.observing import Mild
from apps.remote.examining import Finding
from apps.remote.models import Breaker, Check, CheckedHour, Checkup, RemoteAgent
from apps.remote.uptime import MONTH, median_of
from db import statements
from db.transactions import transacting

KEPT = datetime.timedelta(days=2)  # checks; their hours are kept for a month and a day
NEWEST = 20  # rounds that say how an agent is
LOST = 2  # failures in a row after which an agent that does not answer is unavailable
SHAKY = 3  # of the newest rounds, when they failed
SPARE_SECONDS = 5.0  # between the longest that a round can take and the next
SOONER = 0.25  # of the interval, until an agent is looked at again of which a check has just begun to fail
JITTER = 0.1  # share of the interval by which rounds differ


@dataclass(frozen=True, slots=True)
class Round:
    """A round of checks in the hands of this process."""

    checkup: Checkup
    until: datetime.datetime  # when the next begins, which is also what this one is known by
    probe: str  # the message that the agent is to be sent now, "" for none

    @property
    def agent(self) -> Agent:
        return self.checkup.agent

    @property
    def remote(self) -> RemoteAgent:
        found: RemoteAgent = self.checkup.agent.remote
        return found


def take(most: int) -> list[Round]:
    """Take the rounds that are due, `most` of them, the longest due first."""
    now = statements.database_time()
    _begin_with_new_agents(now)
    due = Checkup.objects.filter(
        next_check_at__lte=now, agent__is_enabled=True, agent__remote__isnull=False
    ).select_related("agent__current_version", "agent__remote")
    taken = (_taken(checkup, now) for checkup in due.order_by("next_check_at")[:most])
    return [one for one in taken if one is not None]


def _begin_with_new_agents(now: datetime.datetime) -> None:
    new = Agent.objects.enabled().filter(remote__isnull=False, checkup=None).values_list("pk", flat=True)
    Checkup.objects.bulk_create(
        [Checkup(agent_id=key, next_check_at=now, next_probe_at=now) for key in new], ignore_conflicts=True
    )


def _taken(checkup: Checkup, now: datetime.datetime) -> Round | None:
    """The round, unless another process has it."""
    until = now + _until_next()
    probes = bool(checkup.probe) and checkup.next_probe_at <= now
    moved = {"next_check_at": until}
    if probes:
        moved["next_probe_at"] = now + datetime.timedelta(seconds=settings.REMOTE_PROBE_SECONDS)
    mine = Checkup.objects.filter(pk=checkup.pk, next_check_at=checkup.next_check_at)
    return Round(checkup, until, checkup.probe if probes else "") if mine.update(**moved) else None


def _until_next() -> datetime.timedelta:
    """About the interval, never quite the same, and longer than a round can take."""
    shaken = settings.REMOTE_CHECK_SECONDS * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load
    longest = settings.REMOTE_CHECK_TIMEOUT + settings.REMOTE_PROBE_TIMEOUT
    return datetime.timedelta(seconds=max(shaken, longest + SPARE_SECONDS))


def keep(one: Round, findings: Sequence[Finding]) -> None:
    """Keep what a round found, and note how the agent is. A round that is no longer this process's is dropped."""
    with transacting():
        checkup = Checkup.objects.select_for_update().filter(pk=one.checkup.pk, next_check_at=one.until).first()
        if checkup is None:
            return
        now = statements.database_time()
        Check.objects.bulk_create(_row(checkup, finding, now) for finding in findings)
        _count(checkup, now, failed=not all(finding.ok for finding in findings))
        _remember(checkup, findings, now)
    agent = Agent.objects.select_related("current_version").filter(pk=checkup.pk).first()
    if agent is not None:
        observing.note(agent, AgentStats.objects.filter(agent=agent).first())


def _row(checkup: Checkup, found: Finding, now: datetime.datetime) -> Check:
    return Check(
        agent_id=checkup.pk, at=now, kind=found.kind, ok=found.ok, milliseconds=found.milliseconds, error=found.error
    )


def _count(checkup: Checkup, now: datetime.datetime, *, failed: bool) -> None:
    """Add the round to its hour. The first of an hour clears away what is too old."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    of_this_hour, is_new = CheckedHour.objects.get_or_create(agent_id=checkup.pk, hour=hour)
    CheckedHour.objects.filter(pk=of_this_hour.pk).update(rounds=F("rounds") + 1, failed=F("failed") + int(failed))
    if is_new:
        Check.objects.filter(agent=checkup.pk, at__lt=now - KEPT).delete()
        CheckedHour.objects.filter(agent=checkup.pk, hour__lt=now - MONTH - datetime.timedelta(days=1)).delete()


def _remember(checkup: Checkup, findings: Sequence[Finding], now: datetime.datetime) -> None:
    wrong = [finding for finding in findings if not finding.ok]
    result = None if wrong else max(finding.milliseconds for finding in findings)
    checkup.newest = [*checkup.newest, result][-NEWEST:]
    checkup.checked_at = now
    if wrong:
        checkup.answers = all(finding.answers for finding in wrong)
        checkup.last_error, checkup.last_error_at = wrong[0].error, now
    if 0 < _lost(checkup) <= LOST:
        sooner = now + datetime.timedelta(seconds=settings.REMOTE_CHECK_SECONDS * SOONER)
        checkup.next_check_at = min(checkup.next_check_at, sooner)
    checkup.save()


def ailment_of(agent: Agent) -> str | Mild:
    """Why a remote agent cannot work, or what it works in spite of; "" where all is well. Two statements."""
    breaker = Breaker.objects.filter(agent=agent).first()
    checkup = Checkup.objects.filter(agent=agent).first()
    state = breaker.state if breaker else Breaker.State.CLOSED
    found = _ailment_by_checks(checkup) if checkup else ""
    if breaker and state == Breaker.State.OPEN:
        return f"Calls to it failed again and again, so it is left alone for a while. {breaker.error}"
    if isinstance(found, str) and found:
        return found
    if breaker and state == Breaker.State.HALF_OPEN:
        return Mild(f"Calls to it failed again and again; the next one tries it. {breaker.error}")
    return found


def _ailment_by_checks(checkup: Checkup) -> str | Mild:
    lost = _lost(checkup)
    if lost >= LOST and not checkup.answers:
        return f"It does not answer. {checkup.last_error}"
    if lost:
        return Mild(f"The newest check failed. {checkup.last_error}")
    failed = checkup.newest.count(None)
    if failed >= SHAKY:
        return Mild(f"Of its newest {len(checkup.newest)} checks {failed} failed.")
    median = median_of(checkup.newest)
    if median is not None and median > 1000 * settings.REMOTE_SLOW_SECONDS:
        return Mild(f"It is slow: a check takes more than {settings.REMOTE_SLOW_SECONDS:g} s.")
    return ""


def _lost(checkup: Checkup) -> int:
    """How many of the newest rounds failed in a row."""
    for number, result in enumerate(reversed(checkup.newest)):
        if result is not None:
            return number
    return len(checkup.newest)
