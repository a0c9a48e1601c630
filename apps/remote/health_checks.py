"""Regular health checks of remote agents, and the health and uptime that follow.

A process claims a round of an agent by moving `next_check_at`. If the process dies, the next round comes as usual.
"""

from __future__ import annotations

import datetime
import logging
import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from django.conf import settings
from django.db.models import F, Q, QuerySet, Sum
from django.utils import timezone

from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource, through
from apps.agents.models import Agent, AgentStats
from apps.engine.turns.handlers import Impairment
from apps.health import monitoring
from apps.remote import circuit_breaker
from apps.remote.authentication import credentials
from apps.remote.models import Breaker, Check, CheckedHour, Checkup, RemoteAgent, RoundResult
from apps.remote.probes import Finding, inspect_agent
from parley import db
from parley.db import sql
from parley.db.sql import write_transaction
from parley.work import WorkList

log = logging.getLogger("parley.remote")

CHECKS_KEPT = datetime.timedelta(days=2)
ROUNDS_REMEMBERED = 20
FAILURES_UNTIL_DOWN = 2  # in a row
FAILURES_UNTIL_SHAKY = 3  # of ROUNDS_REMEMBERED
SPARE_SECONDS = 5.0  # between the longest possible round and the next
RECHECK_SHARE = 0.25  # of the interval, after a first failure
JITTER = 0.1  # share of the interval

DAY = datetime.timedelta(days=1)
MONTH = datetime.timedelta(days=30)


def down(path: str = "") -> Q:
    """Remote agents that do not work or are left alone after failures. `path` leads to the agent, such as "agent__"."""
    is_remote = Q(**{f"{path}kind": Agent.Kind.REMOTE, f"{path}is_enabled": True})
    return is_remote & (
        Q(**{f"{path}health": Agent.Health.UNAVAILABLE}) | Q(**{f"{path}breaker__opened_at__isnull": False})
    )


async def check(agent: int) -> None:
    """Checks the health of a remote agent."""
    for one in await db.run(claim_rounds, 1, agent):
        await db.run(record_round, one, await inspect_agent(one.remote, one.probe))


def due_agents() -> QuerySet[Checkup, int]:
    """Those whose checks are due, new ones too; how often, says REMOTE_CHECK_SECONDS."""
    now = sql.database_time()
    _add_new_agents(now)
    return _due(now).values_list("agent", flat=True)


ROUNDS = WorkList(
    "health_checks", "remote.check_agent", check, Checkup, "next_check_at",
    due=due_agents, waiting=lambda: _due(sql.database_time()),
)  # fmt: skip


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


def _due(now: datetime.datetime) -> QuerySet[Checkup]:
    due = Checkup.objects.filter(next_check_at__lte=now, agent__is_enabled=True, agent__remote__isnull=False)
    return due.order_by("next_check_at")


def claim_rounds(most: int, *agents: int) -> list[Round]:
    """Those that are due, of these agents or of all."""
    now = sql.database_time()
    due = _due(now).select_related("agent__current_version", "agent__remote")
    due = due.filter(agent__in=agents) if agents else due
    claimed = (_claim_round(checkup, now) for checkup in due[:most])
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


def _check(agent: Agent, _: Principal) -> Agent:
    """A remote agent is checked by the next round, in seconds; others here."""
    now = sql.database_time()  # decides what is due
    if not Checkup.objects.filter(agent=agent).update(next_check_at=now, next_probe_at=now):
        monitoring.record_health(agent, AgentStats.objects.filter(agent=agent).first())
        agent.refresh_from_db()
    return agent


def _checked(agent: Agent) -> str:
    if Checkup.objects.filter(agent=agent).exists():
        return "The check has begun. Its result appears in a few seconds."
    return f"{agent.get_health_display()}. {agent.ailment}".strip()


CHECK = Act(
    name="check",
    label="Check the health now",
    do=_check,
    summary="Check the health of an agent now",
    effect="A remote agent is asked for its card. A hosted one is loaded.",
    said=_checked,
    icon="monitor_heart",
    operator_permission="agents.change_agent",
)


def _close_breaker(agent: Agent, _: Principal) -> Agent:
    if not _is_left_alone(agent):
        raise NotNeeded("Calls to it go through.")
    circuit_breaker.close(agent)
    return agent


def _is_left_alone(agent: Agent) -> bool:
    return Breaker.objects.filter(agent=agent, opened_at__isnull=False).exists()


CLOSE_BREAKER = Act(
    name="close",
    label="Close the circuit breaker",
    do=_close_breaker,
    summary="Close the circuit breaker of an agent",
    effect="Calls to it are allowed again, and its health is checked.",
    said=lambda agent: f"Calls to {agent.name} are allowed again.",
    is_offered=_is_left_alone,
    icon="power",
    operator_permission="agents.change_agent",
)


OF_AGENT: tuple[Act[Any], ...] = (through(CHECK, "agent"), through(CLOSE_BREAKER, "agent"))
"""What is done to an agent's health, for rows that have an agent."""

CHECKUPS = Resource("checkups", "checkup", Checkup, acts=OF_AGENT, related=("agent",), order=("pk",))
