"""What happened in the range, from the sums: throughput, run times, failures, tokens and cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import User, Workspace
from apps.agents.models import Agent
from apps.analytics.counting import MICRO, NONE, Amount
from apps.analytics.measures import Measures, fold
from apps.analytics.reading import Key, Reading, Sums
from apps.operators import columns
from apps.operators.actions import may_view
from apps.operators.dashboard.failures import Failures
from apps.operators.dashboard.ranges import TimeRange
from apps.operators.dashboard.tables import SERIES, Chart, Series, Table, Tile, chart_in_time, chart_of_times
from apps.plans.models import PlanRun
from apps.record.execution import Run
from parley.faces import cells
from parley.faces.cells import Tone, money

MOST_ROWS = 12  # of a table on the dashboard
STATES = (Run.State.DONE, Run.State.FAILED, Run.State.CANCELED)
OTHERS = -1
NO_RUNS = "No run ended in this range. Choose a longer one, or send an agent a message."


@dataclass(slots=True)
class Figures:
    """All that the dashboard shows of a range. It needs permission to view runs."""

    tiles: list[Tile]
    charts: list[Chart]
    failures: Table
    tables: list[Table]


class Overview:
    """Reads the sums once, and knows the names and links of what they are of."""

    def __init__(self, reading: Reading, shown: TimeRange, viewer: User, failures: str = "") -> None:
        """`failures`: which the operator chose (`Failures.CHOICES`)."""
        self.reading, self.shown, self.viewer = reading, shown, viewer
        self.failures = Failures(reading, shown, viewer, failures)
        self.totals = reading.sums("run.state", "run.time", "run.model", "plan.state", by=("agent", "label"))
        self.whole = fold(self.totals, lambda key: None).get(None, Measures())
        self.by_agent = fold(self.totals, lambda key: key.agent)
        self.in_time = reading.sums("run.state", by=("agent", "label"), step=reading.period.step)
        self.times = reading.sums("run.time", by=("label",), step=reading.period.step)
        self.names = dict(Agent.objects.values_list("pk", "name")) if may_view(viewer, Agent) else {}

    def runs(self, **filters: Any) -> str:
        """The list of runs that ended in the range."""
        return cells.list_url(Run, **self.shown.within("finished_at"), **filters)

    def figures(self) -> Figures:
        charts = [self._throughput(), self._times()]
        tables: list[Table] = []
        if self.names or may_view(self.viewer, Agent):
            charts.insert(2, self._times_by_agent())
            tables.append(self._spent("agent"))
        tables.append(self._spent("model"))
        if may_view(self.viewer, Workspace):
            tables.append(self._spent("workspace"))
        failures = self.failures.table({agent: self._agent(agent) for agent in self.names})
        return Figures(self._tiles(), charts, failures, tables)

    def _tiles(self) -> list[Tile]:
        whole = self.whole
        found = [
            Tile(
                cells.state(f"runs {state}", columns.RUN_TONES[state]),
                cells.link(f"{getattr(whole, state):,}", self.runs(state__exact=state)),
            )
            for state in STATES
        ]
        median, most = cells.duration(whole.p50), cells.duration(whole.p95)
        tokens = f"{whole.input_tokens:,} in, {whole.output_tokens:,} out"
        found.append(Tile("run time, median", cells.link(median, self.runs()), f"95% within {most}"))
        found.append(Tile("cost", cells.link(money(whole.cost), self.runs()), f"tokens: {tokens}"))
        if may_view(self.viewer, PlanRun):
            ended = sum(amount.number for key, amount in self.totals.items() if key.topic == "plan.state")
            url = cells.list_url(PlanRun, **self.shown.within("finished_at"))
            found.append(Tile(cells.state("plan runs ended", Tone.DONE), cells.link(f"{ended:,}", url)))
        return found

    def _largest(self) -> list[int]:
        """The agents with the most runs; OTHERS last, if there are more."""
        ended = {agent: one.uses for agent, one in self.by_agent.items() if one.uses}
        most = sorted(ended, key=lambda agent: (-ended[agent], agent))
        return most if len(most) <= SERIES else [*most[: SERIES - 1], OTHERS]

    def _throughput(self) -> Chart:
        """By agent; by outcome for those who may not see agents."""
        period, by_agent = self.reading.period, bool(self.names)
        points = period.points()
        groups: list[Any] = self._largest() if by_agent else list(STATES)
        counted = {group: dict.fromkeys(points, 0) for group in groups}
        for key, amount in self.in_time.items():
            group: Any = (key.agent if key.agent in counted else OTHERS) if by_agent else key.label
            counted[group][key.point] = counted[group].get(key.point, 0) + amount.number
        series = [
            Series(self._name(group), [counted[group][point] for point in points], number if by_agent else str(group))
            for number, group in enumerate(groups)
        ]
        when = f" in the {self.shown.title}" if self.shown.choice else f", {self.shown.title}"
        summary = f"{self.whole.uses:,} runs ended{when}."
        title = "Runs that ended" + (", by agent" if by_agent else "")
        show = lambda value: f"{value or 0:,}"  # noqa: E731
        return chart_in_time("throughput", title, summary, "stacked", "runs", period, series, show, NO_RUNS)

    def _times(self) -> Chart:
        median, most = cells.duration(self.whole.p50), cells.duration(self.whole.p95)
        summary = f"The median run took {median}; 95% took at most {most}."
        by_point = fold(self.times, lambda key: key.point)
        return chart_of_times("run-times", "Run time", summary, self.reading.period, by_point, NO_RUNS)

    def _times_by_agent(self) -> Chart:
        agents = [agent for agent in self._largest() if agent != OTHERS]
        measured = [self.by_agent[agent] for agent in agents]
        names = [self._name(agent) for agent in agents]
        series = [
            Series("median", [one.p50 for one in measured], 0),
            Series("95% within", [one.p95 for one in measured], 1),
        ]
        rows = [
            (
                self._agent(agent),
                cells.link(f"{one.uses:,}", self.runs(by_agent=agent)),
                cells.duration(one.p50),
                cells.duration(one.p95),
            )
            for agent, one in zip(agents, measured, strict=True)
        ]
        table = Table("times-by-agent", "", ("agent", "runs", "median", "95% within"), rows, NO_RUNS)
        title, summary = "Run time by agent", "The agents with the most runs."
        return Chart("times-by-agent", title, summary, "bars", "seconds", names, series, table)

    def _spent(self, by: str) -> Table:
        """Tokens and cost by agent, language model or workspace; what cost most first."""
        groups: dict[Any, Amount]
        if by == "workspace":
            sums = self.reading.sums("run.workspace", by=("label",))
            groups = _by(sums, "run.workspace", lambda key: key.label)
        elif by == "model":
            groups = _by(self.totals, "run.model", lambda key: key.label)
        else:
            groups = _by(self.totals, "run.state", lambda key: key.agent)
        most = _most(groups, lambda amount: (amount.cost, amount.input_tokens + amount.output_tokens, amount.number))
        names = self._names_of(by, [group for group, _ in most])
        rows = [
            (
                names[group],
                cells.link(f"{amount.number:,}", self.runs(**{FILTERS[by]: group})),
                f"{amount.input_tokens:,}",
                f"{amount.output_tokens:,}",
                money(amount.cost / MICRO),
            )
            for group, amount in most
        ]
        left = len(groups) - len(most)
        note = f"{left:,} more with less." if left else ""
        headings = (by if by != "model" else "language model", "runs", "tokens in", "tokens out", "cost")
        empty = NO_RUNS if by != "model" else "No run called a language model in this range."
        return Table(f"cost-by-{by}", f"Tokens and cost by {headings[0]}", headings, rows, empty, note)

    def _names_of(self, by: str, groups: Iterable[Any]) -> Mapping[Any, Any]:
        if by == "workspace":
            found = Workspace.objects.in_bulk([int(group) for group in groups])
            return {str(pk): cells.link(one, cells.page_url(Workspace, pk)) for pk, one in found.items()} | {
                group: f"(deleted, {group})" for group in groups if int(group) not in found
            }
        return {group: self._agent(group) if by == "agent" else group for group in groups}

    def _agent(self, agent: int) -> Any:
        return cells.link(self._name(agent), cells.page_url(Agent, agent)) if agent in self.names else self._name(agent)

    def _name(self, group: Any) -> str:
        if group == OTHERS:
            return "other agents"
        return str(self.names.get(group, "(deleted)")) if isinstance(group, int) else str(group)


FILTERS = {"agent": "by_agent", "model": "language_model", "workspace": "in_workspace"}


def _by[K](sums: Sums, topic: str, group: Callable[[Key], K]) -> dict[K, Amount]:
    found = defaultdict[K, Amount](lambda: NONE)
    for key, amount in sums.items():
        if key.topic == topic:
            found[group(key)] = found[group(key)].plus(amount)
    return found


def _most[K](groups: Mapping[K, Amount], rank: Callable[[Amount], Any]) -> list[tuple[K, Amount]]:
    return sorted(groups.items(), key=lambda one: (rank(one[1]), str(one[0])), reverse=True)[:MOST_ROWS]
