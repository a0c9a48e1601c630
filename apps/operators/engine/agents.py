"""Operators' page of an agent, with what is measured of it: what it says is in `apps.operators.agents`."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse

from apps.agents.models import Agent, AgentStats
from apps.features.health import observing
from apps.features.routing.ranking import queue_depths
from apps.operators.agents import AgentAdmin
from apps.operators.record import columns
from apps.operators.record.panels import may_view
from apps.record.models import Feedback, Run, Task
from console import cells, charts

SHOWN = 50  # newest runs in the pictures and their table
COMMENTS = 5
Row = tuple[str, tuple[Any, ...]]  # of a table: its HTML id, and its cells
ENDED = (Run.State.DONE, Run.State.FAILED, Run.State.CANCELED)


@admin.register(Agent)
class MeasuredAgentAdmin(AgentAdmin):
    change_form_outer_before_template = "admin/agents/measured.html"

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        """An agent that was mended is well at once."""
        super().save_model(request, obj, form, change)
        observing.note(obj, AgentStats.objects.filter(agent=obj).first())

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        if obj is not None:
            context |= {"facts": facts_of(obj), "health": self.condition(obj), "ailment": obj.ailment}
            if may_view(request.user, Run):  # type: ignore[arg-type]
                context |= _pictures(newest_runs(obj))
            if may_view(request.user, Feedback):  # type: ignore[arg-type]
                context |= {"comments": _comments(obj), "all_feedback": _all_feedback(obj)}
        page: HttpResponse = super().render_change_form(request, context, *args, obj=obj, **kwargs)
        return page


def facts_of(agent: Agent) -> list[tuple[str, Any]]:
    """What is measured of an agent, each with its name; the queue is of this moment."""
    stats = AgentStats.objects.filter(agent=agent).first() or AgentStats(agent=agent)
    tokens = f"{stats.input_tokens:,} in, {stats.output_tokens:,} out" if stats.input_tokens else "–"
    stars = f"{stats.mean_rating:.1f} of 5, of {stats.ratings:,}" if stats.mean_rating is not None else "–"
    rate = f"{stats.success_rate:.0%} of {stats.runs:,}" if stats.success_rate is not None else "–"
    return [
        ("now", f"{queue_depths().get(agent.pk, 0):,} turns wait or run"),
        ("a turn takes", _range(stats.took_p50, stats.took_p95)),
        ("after waiting", _range(stats.waited_p50, stats.waited_p95)),
        ("turns that succeeded", rate),
        ("answered by tasks", f"{stats.tasks:,}, {stats.tasks_of_a_day:,} of them today"),
        ("answered by messages", f"{stats.messages:,}, {stats.messages_of_a_day:,} of them today"),
        ("tokens", tokens),
        ("stars", stars),
        ("measured", cells.moment(stats.updated_at)),
    ]


def newest_runs(agent: Agent) -> list[Run]:
    """The agent's newest runs that have ended, the newest first, found along the index of its tasks."""
    runs = Prefetch("runs", queryset=Run.objects.filter(state__in=ENDED).defer("input", "memory"))
    tasks = Task.objects.filter(agent=agent).order_by("-created_at").only("pk", "created_at")[: 2 * SHOWN]
    found = [run for task in tasks.prefetch_related(runs) for run in task.runs.all() if run.finished_at]
    return sorted(found, key=lambda run: run.finished_at, reverse=True)[:SHOWN]  # type: ignore[arg-type,return-value]


def _pictures(runs: list[Run]) -> dict[str, Any]:
    if not runs:
        return {}
    seconds = [took for run in reversed(runs) if (took := _took(run)) is not None]
    counts = [(state, sum(run.state == state for run in runs)) for state in ENDED]
    told = ", ".join(f"{count} {state.label.lower()}" for state, count in counts)
    longest, newest = cells.duration(max(seconds, default=None)), cells.duration(seconds[-1] if seconds else None)
    line = f"The newest {len(seconds)} turns from left to right; the longest took {longest}, the newest {newest}."
    shares = [(state.label, count, columns.RUN_TONES[state]) for state, count in counts]
    return {
        "latency": charts.sparkline(seconds, "How long turns took", line),
        "latency_told": line,
        "outcomes": charts.bar(shares, "How turns ended", f"Of the newest {len(runs)} turns: {told}."),
        "outcomes_told": f"Of the newest {len(runs)} turns: {told}.",
        "runs": {"headings": ("run", "state", "took", "ended"), "rows": [_row_of_run(run) for run in runs]},
    }


def _row_of_run(run: Run) -> Row:
    shown = (columns.id_(run), columns.run_state(run), columns.took(run), cells.moment(run.finished_at))
    return f"run-{run.pk}", shown


def _took(run: Run) -> float | None:
    both = run.started_at and run.finished_at
    return (run.finished_at - run.started_at).total_seconds() if both else None  # type: ignore[operator]


def _range(median: float | None, most: float | None) -> str:
    if median is None:
        return "–"
    return f"{cells.duration(median)}, 95 of 100 within {cells.duration(most)}"


def _comments(agent: Agent) -> dict[str, Any]:
    given = Feedback.objects.filter(task__agent=agent).select_related("task").order_by("-pk")[:COMMENTS]
    rows = [_row_of_feedback(one) for one in given]
    return {"headings": ("stars", "says", "task", "at"), "rows": rows} if rows else {}


def _row_of_feedback(one: Feedback) -> Row:
    return f"feedback-{one.pk}", (columns.stars(one), columns.comment(one), columns.task(one), columns.at(one))


def _all_feedback(agent: Agent) -> str:
    return cells.list_url(Feedback, task__agent__id__exact=agent.pk)
