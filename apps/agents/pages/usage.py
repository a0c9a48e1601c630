"""How much an agent or plan is used, how long it takes and how well it does, for the people who may use it.

The numbers are of all its users together. Costs are for operators.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from apps.agents.models import Agent
from apps.analytics.measures import TOPICS, Measures, fold
from apps.analytics.reading import Period, Reading, read
from apps.analytics.rollup import DAY, moment_of
from apps.web.shell import agent_or_404, page, reader_view
from parley.faces import charts
from parley.faces.cells import duration
from parley.faces.clock import written

DAYS = (7, 30)
USUAL = 30


@reader_view
def usage(request: HttpRequest, slug: str) -> HttpResponse:
    found = agent_or_404(request, slug)
    chosen = request.GET.get("days", "")
    days = next((one for one in DAYS if str(one) == chosen), USUAL)
    numbers = read(last(days), lambda reading: _numbers(reading, found))
    return page(request, "agents/usage.html", agent=found, days=days, choices=DAYS, **numbers)


def last(days: int) -> Period:
    """Whole days in UTC, today among them."""
    now = timezone.now().astimezone(datetime.UTC)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return Period(today - datetime.timedelta(days=days - 1), now)


def _numbers(reading: Reading, agent: Agent) -> dict[str, Any]:
    plans = {agent.pk} if agent.kind == Agent.Kind.PLAN else set()
    sums = reading.sums(*TOPICS, by=("agent", "version", "label"), step=DAY, agent=agent.pk)
    whole = fold(sums, lambda key: None, plans).get(None, Measures())
    by_day = fold(sums, lambda key: key.point, plans)
    by_version = fold(sums, lambda key: key.version, plans)
    days = range(int(reading.period.start.timestamp()), int(reading.period.end.timestamp()), DAY)
    uses = [by_day[day].uses if day in by_day else 0 for day in days]
    summary = f"{whole.uses:,} uses. The most in a day: {max(uses, default=0):,}."
    newest = sorted(version for version in by_version if version)[-2:]
    return {
        "whole": whole,
        "facts": facts_of(whole),
        "picture": charts.sparkline(uses, "Uses by day", summary),
        "summary": summary,
        "by_day": [(written(moment_of(day), "date"), count) for day, count in zip(days, uses, strict=True) if count],
        "versions": newest,
        "compared": _compared([by_version[version] for version in newest]),
    }


def facts_of(measures: Measures) -> list[tuple[str, str]]:
    """Names and values."""
    return [
        ("Uses", f"{measures.uses:,}"),
        ("Tasks begun", f"{measures.tasks:,}"),
        ("Answered with a message", f"{measures.messages:,}"),
        ("Succeeded", "–" if measures.success is None else f"{measures.success:.0%}"),
        ("Usual time", duration(measures.p50)),
        ("95% within", duration(measures.p95)),
        ("Thumbs up", f"{measures.good:,}"),
        ("Thumbs down", f"{measures.bad:,}"),
    ]


def _compared(versions: Sequence[Measures]) -> list[tuple[str, str, str]]:
    """Each fact of the version before and of the newest one; empty if there is only one."""
    if len(versions) < 2:
        return []
    before, newest = map(facts_of, versions)
    return [(name, old, new) for (name, old), (_, new) in zip(before, newest, strict=True)]
