"""Live panels of contexts, tasks and runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Model, QuerySet
from django.forms import Media, Script
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from apps.accounts.models import User
from apps.operators import columns
from apps.operators.actions import may_view
from apps.operators.causes import causes_of
from apps.operators.documents import Timeline
from apps.operators.lists import ListAdmin
from apps.record import lineage
from apps.record.content.rendering import summarize_parts
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Event, Feedback, Message, Task
from parley.faces import cells
from parley.faces.admin import Column


class LiveAdmin(ListAdmin):
    """A page with a live panel, which `live.js` updates over `live_path`."""

    change_form_outer_before_template = "admin/console/live.html"

    @property
    def media(self) -> Media:
        return super().media + Media(js=[Script("console/live.js", type="module")])  # type: ignore[list-item]

    def page_context(self, request: HttpRequest, row: Subject) -> dict[str, Any]:
        return {"panel": panel(row, request.user), "live_path": live_path(row)}  # type: ignore[arg-type]


def live_path(subject: Subject) -> str:
    match subject:
        case Context():
            return f"/ws/admin/contexts/{subject.pk}"
        case Task():
            return f"/ws/admin/contexts/{subject.context_id}?task={subject.pk}"
        case Run():
            return f"/ws/admin/contexts/{subject.task.context_id}?run={subject.pk}"


NEWEST_ROWS = 50  # in each table, with a link to all

Subject = Context | Task | Run


@dataclass(frozen=True)
class Table:
    """The subject's newest rows of a model; `narrowing` are the lookups for all."""

    title: str
    rows: QuerySet[Any]
    columns: Sequence[Column]
    narrowing: Mapping[str, object]

    @property
    def model(self) -> type[Model]:
        return self.rows.model

    def rendered(self) -> dict[str, Any]:
        found = list(self.rows[: NEWEST_ROWS + 1])
        return {
            "title": self.title,
            "headings": [vars(column)["short_description"] for column in self.columns],
            "rows": [
                (f"{self.model._meta.model_name}-{row.pk}", [column(row) for column in self.columns])
                for row in found[:NEWEST_ROWS]
            ],
            "is_cut": len(found) > NEWEST_ROWS,
            "all": cells.list_url(self.model, **self.narrowing),
        }


AnyTable = Table | Timeline


def panel(subject: Subject, viewer: User) -> SafeString:
    """Has only the tables that `viewer` may see."""
    facts, tables = PANELS[type(subject)](subject)
    causes = causes_of(subject) if isinstance(subject, Task) else []
    heading = (
        "How it ended" if isinstance(subject, Task) and subject.is_finished else "Why it waits, or what happens now"
    )
    allowed = [table.rendered() for table in tables if may_view(viewer, table.model)]
    return render_to_string(
        "admin/console/panel.html", {"facts": facts, "tables": allowed, "causes": causes, "heading": heading}
    )


def _context_panel(context: Context) -> tuple[list[tuple[str, Any]], list[AnyTable]]:
    facts: list[tuple[str, Any]] = [
        ("agent", columns.agent(context)),
        ("owner", columns.owner(context)),
        ("updated", columns.updated(context)),
        ("events", columns.events_of_context(context)),
    ]
    if context.forked_at is not None:
        facts += [("forked from", columns.fork_of(context)), ("after event", context.forked_at)]
    # A fork's tables include its past; the linked lists do not.
    tasks = lineage.tasks(context).select_related("agent").order_by("-created_at")
    return facts, [
        Table("Tasks", tasks, TASKS, whole := {"context__id__exact": context.pk}),
        _events_table(lineage.events(context), whole),
    ]


def _task_panel(task: Task) -> tuple[list[tuple[str, Any]], list[AnyTable]]:
    facts = [
        ("state", columns.task_state(task)),
        ("since", columns.since(task)),
        ("message", columns.gist(summarize_parts((task.status_message or {}).get("parts", [])), 200) or "–"),
        ("agent", columns.agent(task)),
        ("owner", columns.owner(task)),
        ("session", columns.context(task)),
    ]
    runs, artifacts = Run.objects.filter(task=task), Artifact.objects.filter(task=task)
    given = Feedback.objects.filter(task=task)
    messages, events = Message.objects.filter(task=task), Event.objects.filter(task=task)
    return facts, [
        Timeline(task),
        Table("Runs", runs.order_by("-turn"), RUNS, whole := {"task__id__exact": task.pk}),
        Table("Artifacts", artifacts, ARTIFACTS, whole),
        Table("Messages", messages.order_by("-index"), MESSAGES, whole),
        Table("Feedback", given.order_by("-index"), FEEDBACK, whole),
        _events_table(events, whole),
    ]


def _run_panel(run: Run) -> tuple[list[tuple[str, Any]], list[AnyTable]]:
    facts = [
        ("state", columns.run_state(run)),
        ("attempt", run.attempt),
        ("lease ends", columns.lease(run)),
        ("worker", columns.worker(run)),
        ("took", columns.took(run)),
        ("problem", columns.problem(run)),
        ("task", columns.task(run)),
        ("turn", run.turn),
    ]
    events = Event.objects.filter(task=run.task_id, run=run.pk)
    return facts, [_events_table(events, {"task__id__exact": run.task_id, "run__exact": run.pk})]


def _events_table(events: QuerySet[Event], narrowing: Mapping[str, object]) -> Table:
    return Table("Newest events", events.order_by("-index"), EVENTS, narrowing)


TASKS = (columns.id_, columns.task_state, columns.agent, columns.since, columns.created)
RUNS = (
    columns.id_,
    columns.turn,
    columns.run_state,
    columns.attempt,
    columns.lease,
    columns.worker,
    columns.took,
    columns.problem,
)
ARTIFACTS = (columns.artifact_name, columns.artifact_state, columns.artifact_gist, columns.created)
MESSAGES = (columns.index, columns.role, columns.message_gist, columns.created)
FEEDBACK = (columns.rating, columns.comment, columns.at)
EVENTS = (columns.index, columns.type_, columns.event_gist, columns.at)
PANELS: dict[type[Subject], Callable[[Any], tuple[list[tuple[str, Any]], list[AnyTable]]]] = {
    Context: _context_panel,
    Task: _task_panel,
    Run: _run_panel,
}
