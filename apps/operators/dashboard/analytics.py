"""Analytics of agents and plans: what each was used for, over time and by version, and what a version changed."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.analytics.measures import TOPICS, Measures, fold
from apps.analytics.reading import Reading, Sums, read
from apps.operators.actions import may_view
from apps.operators.dashboard.filters import key_of
from apps.operators.dashboard.page import picker_of
from apps.operators.dashboard.ranges import TimeRange, range_of
from apps.operators.dashboard.tables import (
    Chart,
    Series,
    Table,
    Tile,
    chart_in_time,
    chart_of_times,
    full_label,
    percent,
)
from apps.plans.models import PlanRun
from apps.record.execution import Run
from apps.record.models import Feedback, Message
from parley.faces import cells
from parley.faces.cells import money

USUAL = "30d"
NOTHING = "No use in this range. Choose a longer one."
BETTER = {"success": 1, "p50": -1, "p95": -1, "cost_per_use": -1, "liked": 1}
"""Which way is better. Other measures are neither."""


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    title: str
    show: Callable[[Any], str]


def _count(number: int) -> str:
    return f"{number:,}"


MEASURES = (
    Measure("uses", "uses", _count),
    Measure("tasks", "tasks", _count),
    Measure("messages", "messages", _count),
    Measure("success", "success", percent),
    Measure("failed", "failed", _count),
    Measure("p50", "median time", cells.duration),
    Measure("p95", "95% within", cells.duration),
    Measure("cost", "cost", money),
    Measure("cost_per_use", "cost per use", money),
    Measure("input_tokens", "tokens in", _count),
    Measure("output_tokens", "tokens out", _count),
    Measure("good", "thumbs up", _count),
    Measure("bad", "thumbs down", _count),
    Measure("liked", "liked", percent),
)
FEEDBACK = ("good", "bad", "liked")


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """All agents and plans, the most used first."""
    viewer = _viewer(request)
    shown = range_of(request.GET, USUAL)
    agents = {agent.pk: agent for agent in Agent.objects.only("pk", "name", "slug", "kind")}
    plans = {pk for pk, agent in agents.items() if agent.kind == Agent.Kind.PLAN}
    sums = read(shown.period, lambda reading: reading.sums(*TOPICS, by=("agent", "label")))
    measured = {agent: one for agent, one in fold(sums, lambda key: key.agent, plans).items() if agent in agents}
    order = sorted(measured, key=lambda agent: (-measured[agent].uses, agents[agent].name))
    measures = _measures(viewer)
    if request.GET.get("format") == "csv":
        lines = [(agents[agent].slug, *_plain(measured[agent], measures)) for agent in order]
        return _csv("agents", shown, ("agent", *(one.name for one in measures)), lines)
    rows = [
        (_agent_link(agents[agent], shown), *(one.show(getattr(measured[agent], one.name)) for one in measures))
        for agent in order
    ]
    table = Table("agents", "Agents and plans", ("agent", *(one.title for one in measures)), rows, NOTHING)
    return _page(request, shown, "Analytics", "admin/dashboard/analytics.html", tables=[table])


@require_safe
def agent_page(request: HttpRequest, agent: int) -> HttpResponse:
    """One agent or plan: over time, by version, and the chosen version compared with the one before."""
    viewer = _viewer(request)
    found = Agent.objects.filter(pk=agent).first() if agent < 2**63 else None
    if found is None:
        raise Http404
    shown = range_of(request.GET, USUAL)
    page = read(shown.period, lambda reading: AgentNumbers(reading, found, shown, viewer))
    if request.GET.get("format") == "csv":
        headings = ("from", "version", *(one.name for one in page.measures))
        return _csv(found.slug, shown, headings, page.lines())
    chosen = request.GET.get("version", "")
    context = {
        "agent": found,
        "agent_url": cells.page_url(Agent, found.pk),
        "tiles": page.tiles(),
        "charts": page.charts(),
        "tables": [page.versions_table()],
        "comparison": page.comparison(chosen),
        "reasons": page.reasons,
    }
    return _page(request, shown, f"Analytics of {found.name}", "admin/dashboard/agent.html", **context)


def _viewer(request: HttpRequest) -> User:
    """Raises PermissionDenied for who may not view agents and runs."""
    viewer = request.user
    assert isinstance(viewer, User)
    if not (may_view(viewer, Agent) and may_view(viewer, Run)):
        raise PermissionDenied
    return viewer


def _measures(viewer: User) -> list[Measure]:
    hidden = {
        *(() if may_view(viewer, Feedback) else FEEDBACK),
        *(() if may_view(viewer, Message) else ("messages",)),
    }
    return [one for one in MEASURES if one.name not in hidden]


def _page(request: HttpRequest, shown: TimeRange, title: str, template: str, **context: Any) -> HttpResponse:
    page = {
        **admin.site.each_context(request),
        "title": title,
        "picker": picker_of(shown, request),
        "shown": shown,
        "csv_query": f"{shown.query}&format=csv",
        **context,
    }
    return TemplateResponse(request, template, page)


def _agent_link(agent: Agent, shown: TimeRange) -> Any:
    return cells.link(agent.name, analytics_url(agent.pk, shown))


def analytics_url(agent: int, shown: TimeRange, **query: int) -> str:
    rest = f"&{urlencode(query)}" if query else ""
    return f"{reverse('operators:agent-analytics', args=[agent])}?{shown.query}{rest}"


class AgentNumbers:
    """The measures of one agent in a range: by version, over time, and altogether."""

    def __init__(self, reading: Reading, agent: Agent, shown: TimeRange, viewer: User) -> None:
        self.agent, self.shown, self.viewer = agent, shown, viewer
        self.is_plan = agent.kind == Agent.Kind.PLAN
        self.measures = _measures(viewer)
        self.period, self.step = reading.period, reading.period.step
        plans = {agent.pk} if self.is_plan else set()
        parts = ("agent", "version", "label")
        sums: Sums = reading.sums(*TOPICS, by=parts, step=self.step, agent=agent.pk)
        self.by_point = fold(sums, lambda key: key.point, plans)
        self.by_point_and_version = fold(sums, lambda key: (key.point, key.version), plans)
        self.by_version = fold(sums, lambda key: key.version, plans)
        self.whole = fold(sums, lambda key: None, plans).get(None, Measures())
        self.reasons = self._reasons(reading.sums("run.error", by=("agent", "label"), agent=agent.pk))

    def rows(self, **filters: Any) -> str:
        """The list of what was counted."""
        if self.is_plan:
            return cells.list_url(
                PlanRun, **self.shown.within("finished_at"), task__agent__id__exact=self.agent.pk, **filters
            )
        return cells.list_url(Run, **self.shown.within("finished_at"), by_agent=self.agent.pk, **filters)

    def tiles(self) -> list[Tile]:
        whole = self.whole
        states = [
            Tile(state, cells.link(f"{getattr(whole, state):,}", self.rows(**self._ended(state))))
            for state in ("done", "failed", "canceled")
        ]
        turns = cells.list_url(Run, **self.shown.within("finished_at"), by_agent=self.agent.pk, first=1)
        choice = [Tile("tasks begun", cells.link(f"{whole.tasks:,}", turns))]
        if may_view(self.viewer, Message):
            answers = cells.list_url(
                Message, **self.shown.within("created_at"), agent__id__exact=self.agent.pk, without_task=1
            )
            choice.append(Tile("answered by a message", cells.link(f"{whole.messages:,}", answers), _share(whole)))
        time = Tile("median time", cells.duration(whole.p50), f"95% within {cells.duration(whole.p95)}")
        cost = Tile("cost", money(whole.cost), f"{money(whole.cost_per_use)} per use")
        return [*states, Tile("success", percent(whole.success)), *choice, time, cost, *self._ratings()]

    def _ended(self, state: str) -> dict[str, str]:
        return {"ended": state} if self.is_plan else {"state__exact": state}

    def _ratings(self) -> list[Tile]:
        if not may_view(self.viewer, Feedback):
            return []
        found = []
        for name, title in (("good", "thumbs up"), ("bad", "thumbs down")):
            url = cells.list_url(
                Feedback, **self.shown.within("at"), task__agent__id__exact=self.agent.pk, rating=name, newest=1
            )
            found.append(Tile(title, cells.link(f"{getattr(self.whole, name):,}", url)))
        return found

    def charts(self) -> list[Chart]:
        at = [self.by_point.get(point, Measures()) for point in self.period.points()]
        ended = [Series(state, [getattr(one, state) for one in at], state) for state in ("done", "failed", "canceled")]
        if may_view(self.viewer, Message):
            ended.append(Series("messages", [one.messages for one in at], 0))
        costs = [Series("cost", [one.cost for one in at], 0)]
        whole, duration, period = self.whole, cells.duration, self.period
        used, spent = f"{whole.uses:,} uses.", f"{money(whole.cost)} in all."
        took, title = f"Median {duration(whole.p50)}, 95% within {duration(whole.p95)}.", "Time from start to end"
        return [
            chart_in_time("uses", "Uses", used, "stacked", "uses", period, ended, _count, NOTHING),
            chart_of_times("times", title, took, period, self.by_point, NOTHING),
            chart_in_time("cost", "Cost", spent, "stacked", "money", period, costs, money, NOTHING),
        ]

    def versions_table(self) -> Table:
        rows = [
            (
                self._version(version),
                *(one.show(getattr(self.by_version[version], one.name)) for one in self.measures),
            )
            for version in sorted(self.by_version, reverse=True)
        ]
        headings = ("version", *(one.title for one in self.measures))
        note = "Answers without a task have no version." if 0 in self.by_version else ""
        return Table("versions", "By version", headings, rows, NOTHING, note)

    def _version(self, version: int) -> Any:
        url = analytics_url(self.agent.pk, self.shown, version=version)
        return cells.link(str(version), f"{url}#comparison") if version else "none"

    def comparison(self, chosen: str) -> dict[str, Any] | None:
        """The chosen version (by default the newest) beside the one before it that was used in the range."""
        versions = sorted(version for version in self.by_version if version)
        if not versions:
            return None
        wanted = key_of(chosen) if chosen else versions[-1]
        problem = "" if wanted in versions else f"Version {chosen[:20]} was not used in this range."
        version = versions[-1] if problem else wanted
        earlier = [one for one in versions if one < version]
        if not earlier:
            return {"version": version, "problem": problem, "table": None}
        before = earlier[-1]
        rows = _differences(self.by_version[before], self.by_version[version], self.measures)
        headings = ("measure", f"version {before}", f"version {version}", "difference")
        title = f"Version {version} compared with version {before}"
        return {"version": version, "problem": problem, "table": Table("compared", title, headings, rows, NOTHING)}

    def _reasons(self, sums: Sums) -> Table:
        filters = {"state__exact": "failed", "by_agent": self.agent.pk, **self.shown.within("finished_at")}
        rows = [
            (key.label, cells.link(f"{amount.number:,}", cells.list_url(Run, **filters, reason=key.label)))
            for key, amount in sorted(sums.items(), key=lambda one: -one[1].number)
        ]
        return Table(
            "reasons", "Failed runs by reason", ("reason", "failed runs"), rows, "No run failed in this range."
        )

    def lines(self) -> Iterable[Sequence[Any]]:
        """For CSV: a line for each point and version that was used."""
        for (point, version), one in sorted(self.by_point_and_version.items()):
            yield full_label(point, self.step), version, *_plain(one, self.measures)


def _share(measures: Measures) -> str:
    answers = measures.tasks + measures.messages
    return f"{percent(measures.messages / answers)} of answers" if answers else ""


def _differences(before: Measures, after: Measures, measures: Sequence[Measure]) -> list[tuple[Any, ...]]:
    found = []
    for measure in measures:
        old, new = getattr(before, measure.name), getattr(after, measure.name)
        found.append((measure.title, measure.show(old), measure.show(new), _difference(measure, old, new)))
    return found


def _difference(measure: Measure, old: float | None, new: float | None) -> Any:
    if old is None or new is None:
        return "–"
    if old == new:
        return "same"
    sign = "+" if new > old else "−"
    if measure.name in ("success", "liked"):
        text = f"{sign}{abs(new - old) * 100:.1f} points"
    else:
        text = f"{sign}{measure.show(abs(new - old))}" + (f" ({sign}{abs(new - old) / old:.0%})" if old else "")
    if direction := BETTER.get(measure.name, 0):
        is_better = (new > old) == (direction > 0)
        return cells.judged(text, is_better)
    return text


def _plain(measures: Measures, wanted: Sequence[Measure]) -> list[Any]:
    """Numbers for a file; empty for what was not measured."""
    values = (getattr(measures, one.name) for one in wanted)
    return ["" if value is None else round(value, 6) if isinstance(value, float) else value for value in values]


def _csv(name: str, shown: TimeRange, headings: Sequence[str], lines: Iterable[Sequence[Any]]) -> HttpResponse:
    begin, end = (f"{moment:%Y%m%dT%H%M}" for moment in (shown.period.start, shown.period.end))
    response = HttpResponse(
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}-{begin}-{end}.csv"'},
    )
    writer = csv.writer(response)
    writer.writerow(headings)
    writer.writerows(lines)
    return response
