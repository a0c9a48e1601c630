"""Regular health checks of remote agents, and the health and uptime that follow.

A process claims a round of an agent by moving `next_check_at`. If the process dies, the next round comes as usual. A
worker process runs its rounds on one event loop.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import math
import random
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from django.conf import settings
from django.db.models import F, Q, Sum
from django.utils import timezone

import db
from apps.agents.models import Agent, AgentStats
from apps.engine.handlers import Impairment
from apps.features.health import monitoring
from apps.remote.authentication import credentials
from apps.remote.models import Breaker, Check, CheckedHour, Checkup, RemoteAgent, RoundResult
from apps.remote.probes import Finding, inspect_agent
from db import sql
from db.sql import write_transaction
from db.threads import Singleton

log = logging.getLogger("parley.remote")

PARALLEL_ROUNDS = 100  # per process
CHECKS_KEPT = datetime.timedelta(days=2)
ROUNDS_REMEMBERED = 20
FAILURES_UNTIL_DOWN = 2  # in a row
FAILURES_UNTIL_SHAKY = 3  # of ROUNDS_REMEMBERED
SPARE_SECONDS = 5.0  # between the longest possible round and the next
RECHECK_SHARE = 0.25  # of the interval, after a first failure
JITTER = 0.1  # share of the interval

DAY = datetime.timedelta(days=1)
MONTH = datetime.timedelta(days=30)


class Checker:
    def __init__(self) -> None:
        self._rounds: set[asyncio.Task[None]] = set()
        self._is_claiming = False
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="checks", daemon=True).start()

    def check_due(self) -> None:
        """Start the rounds that are due. Thread-safe; does not wait."""
        asyncio.run_coroutine_threadsafe(self._start_due(), self._loop)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cancel_rounds(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _start_due(self) -> None:
        most = PARALLEL_ROUNDS - len(self._rounds)
        if self._is_claiming or not most:
            return
        self._is_claiming = True
        try:
            for one in await db.run(claim_rounds, most):
                task = self._loop.create_task(_run_round(one))
                self._rounds.add(task)
                task.add_done_callback(self._rounds.discard)
        except Exception:
            log.exception("remote agents could not be checked; they are due the next time")
        finally:
            self._is_claiming = False

    async def _cancel_rounds(self) -> None:
        rounds = list(self._rounds)
        for task in rounds:
            task.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)


async def _run_round(one: Round) -> None:
    try:
        await db.run(record_round, one, await inspect_agent(one.remote, one.probe))
    except Exception:
        log.exception("the check of agent %s broke off", one.agent.slug)


_checker = Singleton(Checker)


def process_checker() -> Checker:
    return _checker.get()


def close_process_checker() -> None:
    if (closing := _checker.take()) is not None:
        closing.close()


@dataclass(frozen=True, slots=True)
class Round:
    checkup: Checkup
    until: datetime.datetime  # the time of the next round, which identifies this one
    probe: str  # a message to send; "" for none

    @property
    def agent(self) -> Agent:
        return self.checkup.agent

    @property
    def remote(self) -> RemoteAgent:
        remote: RemoteAgent = self.checkup.agent.remote
        return remote


def claim_rounds(most: int) -> list[Round]:
    now = sql.database_time()
    _add_new_agents(now)
    due = Checkup.objects.filter(
        next_check_at__lte=now, agent__is_enabled=True, agent__remote__isnull=False
    ).select_related("agent__current_version", "agent__remote")
    claimed = (_claim_round(checkup, now) for checkup in due.order_by("next_check_at")[:most])
    return [one for one in claimed if one is not None]


def _add_new_agents(now: datetime.datetime) -> None:
    new = Agent.objects.enabled().filter(remote__isnull=False, checkup=None).values_list("pk", flat=True)
    Checkup.objects.bulk_create(
        [Checkup(agent_id=key, next_check_at=now, next_probe_at=now) for key in new], ignore_conflicts=True
    )


def _claim_round(checkup: Checkup, now: datetime.datetime) -> Round | None:
    """The round, unless another process has it."""
    until = now + _interval()
    probes = bool(checkup.probe) and checkup.next_probe_at <= now
    moved = {"next_check_at": until}
    if probes:
        moved["next_probe_at"] = now + datetime.timedelta(seconds=settings.REMOTE_PROBE_SECONDS)
    mine = Checkup.objects.filter(pk=checkup.pk, next_check_at=checkup.next_check_at)
    return Round(checkup, until, checkup.probe if probes else "") if mine.update(**moved) else None


def _interval() -> datetime.timedelta:
    shaken = settings.REMOTE_CHECK_SECONDS * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load
    longest = settings.REMOTE_CHECK_TIMEOUT + settings.REMOTE_PROBE_TIMEOUT
    return datetime.timedelta(seconds=max(shaken, longest + SPARE_SECONDS))


def record_round(one: Round, findings: Sequence[Finding]) -> None:
    """Store a round's findings, and update the agent's health. Drops a round that another process has claimed since."""
    with write_transaction():
        checkup = Checkup.objects.select_for_update().filter(pk=one.checkup.pk, next_check_at=one.until).first()
        if checkup is None:
            return
        now = sql.database_time()
        Check.objects.bulk_create(
            Check(agent_id=checkup.pk, at=now, kind=one.kind, ok=one.ok, milliseconds=one.milliseconds, error=one.error)
            for one in findings
        )
        _count_round(checkup, now, failed=not all(finding.ok for finding in findings))
        _update_checkup(checkup, findings, now)
    agent = Agent.objects.select_related("current_version").filter(pk=checkup.pk).first()
    if agent is not None:
        monitoring.record_health(agent, AgentStats.objects.filter(agent=agent).first())


def _count_round(checkup: Checkup, now: datetime.datetime, *, failed: bool) -> None:
    """Add the round to its hour. The first round of an hour deletes old rows."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    of_this_hour, is_new = CheckedHour.objects.get_or_create(agent_id=checkup.pk, hour=hour)
    CheckedHour.objects.filter(pk=of_this_hour.pk).update(rounds=F("rounds") + 1, failed=F("failed") + int(failed))
    if is_new:
        Check.objects.filter(agent=checkup.pk, at__lt=now - CHECKS_KEPT).delete()
        CheckedHour.objects.filter(agent=checkup.pk, hour__lt=now - MONTH - datetime.timedelta(days=1)).delete()


def _update_checkup(checkup: Checkup, findings: Sequence[Finding], now: datetime.datetime) -> None:
    failures = [finding for finding in findings if not finding.ok]
    result = None if failures else max(finding.milliseconds for finding in findings)
    checkup.newest = [*checkup.newest, result][-ROUNDS_REMEMBERED:]
    checkup.checked_at = now
    if failures:
        checkup.answers = all(finding.answers for finding in failures)
        checkup.last_error, checkup.last_error_at = failures[0].error, now
    if 0 < _failures_in_a_row(checkup) <= FAILURES_UNTIL_DOWN:
        sooner = now + datetime.timedelta(seconds=settings.REMOTE_CHECK_SECONDS * RECHECK_SHARE)
        checkup.next_check_at = min(checkup.next_check_at, sooner)
    checkup.save()


def health_problem(agent: Agent) -> str | Impairment:
    """Why a remote agent cannot work, or is impaired; "" if neither."""
    breaker = Breaker.objects.filter(agent=agent).first()
    checkup = Checkup.objects.filter(agent=agent).first()
    state = breaker.state if breaker else Breaker.State.CLOSED
    found = _checkup_ailment(checkup) if checkup else ""
    if breaker and state == Breaker.State.OPEN:
        return f"Calls to it failed again and again, so it is left alone for a while. {breaker.error}"
    if isinstance(found, str) and found:
        return found
    if breaker and state == Breaker.State.HALF_OPEN:
        return Impairment(f"Calls to it failed again and again; the next one tries it. {breaker.error}")
    lacking = credentials.missing(agent, None)
    if not found and lacking is not None and not lacking.is_personal:
        return Impairment(f"It needs a credential. {lacking}")
    return found


def _checkup_ailment(checkup: Checkup) -> str | Impairment:
    in_a_row = _failures_in_a_row(checkup)
    if in_a_row >= FAILURES_UNTIL_DOWN and not checkup.answers:
        return f"It does not answer. {checkup.last_error}"
    if in_a_row:
        return Impairment(f"The newest check failed. {checkup.last_error}")
    failed = checkup.newest.count(None)
    if failed >= FAILURES_UNTIL_SHAKY:
        return Impairment(f"Of its newest {len(checkup.newest)} checks {failed} failed.")
    median = median_of(checkup.newest)
    if median is not None and median > 1000 * settings.REMOTE_SLOW_SECONDS:
        return Impairment(f"It is slow: a check takes more than {settings.REMOTE_SLOW_SECONDS:g} s.")
    return ""


def _failures_in_a_row(checkup: Checkup) -> int:
    for number, result in enumerate(reversed(checkup.newest)):
        if result is not None:
            return number
    return len(checkup.newest)


@dataclass(frozen=True, slots=True)
class Uptime:
    """The shares of rounds that succeeded, from 0 to 1, and the newest results; None means unknown."""

    day: float | None = None  # the last 24 hours
    month: float | None = None  # 30 days
    median_ms: int | None = None

    @property
    def median_seconds(self) -> float | None:
        return None if self.median_ms is None else self.median_ms / 1000

    newest: list[RoundResult] = field(default_factory=list)
    checked_at: datetime.datetime | None = None
    last_error: str = ""
    last_error_at: datetime.datetime | None = None
    breaker: Breaker | None = None

    @property
    def state_of_calls(self) -> Breaker.State:
        return self.breaker.state if self.breaker else Breaker.State.CLOSED

    @property
    def day_percent(self) -> str:
        return percent(self.day)

    @property
    def month_percent(self) -> str:
        return percent(self.month)


def percent(share: float | None) -> str:
    """A share for people, never rounded up to 100 %."""
    if share is None:
        return "–"
    return "100 %" if share == 1 else f"{math.floor(share * 1000) / 10:.1f} %"


def uptime_of(agent: Agent) -> Uptime:
    return uptimes_of([agent])[agent.pk]


def uptimes_of(agents: Collection[Agent]) -> dict[int, Uptime]:
    """By agent, with three queries for all of them."""
    keys = [agent.pk for agent in agents]
    checkups = Checkup.objects.in_bulk(keys)
    breakers = Breaker.objects.in_bulk(keys)
    shares = _shares(keys)
    return {key: _uptime(checkups.get(key), breakers.get(key), *shares.get(key, (None, None))) for key in keys}


def median_of(newest: list[RoundResult]) -> int | None:
    """In milliseconds."""
    took = [result for result in newest if result is not None]
    return round(median(took)) if took else None


def _shares(keys: list[int]) -> dict[int, tuple[float | None, float | None]]:
    now = timezone.now()
    today = Q(hour__gt=now - DAY)
    hours: Any = CheckedHour.objects.filter(agent__in=keys, hour__gt=now - MONTH).order_by()
    sums = hours.values_list("agent").annotate(
        day_rounds=Sum("rounds", filter=today), day_failed=Sum("failed", filter=today),
        month_rounds=Sum("rounds"), month_failed=Sum("failed"),
    )  # fmt: skip
    return {
        agent: (_share(day_rounds, day_failed), _share(rounds, failed))
        for agent, day_rounds, day_failed, rounds, failed in sums
    }


def _share(rounds: int | None, failed: int | None) -> float | None:
    return 1 - (failed or 0) / rounds if rounds else None


def _uptime(checkup: Checkup | None, breaker: Breaker | None, day: float | None, month: float | None) -> Uptime:
    if checkup is None:
        return Uptime(day, month, breaker=breaker)
    return Uptime(
        day, month, median_of(checkup.newest), checkup.newest,
        checkup.checked_at, checkup.last_error, checkup.last_error_at, breaker,
    )  # fmt: skip
