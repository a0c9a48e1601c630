"""What waits now: for people, and for machines. Each number leads to its rows, and costs one indexed query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Model, QuerySet

from apps.a2a.admin import DeliveryAdmin
from apps.a2a.models import Delivery
from apps.accounts.models import User
from apps.analytics.models import StorageSize
from apps.conversations.uploads.models import Upload
from apps.housekeeping.models import SEEN_WITHIN, ServerProcess
from apps.operators import columns
from apps.operators.actions import may_view
from apps.operators.dashboard.ranges import TimeRange
from apps.operators.dashboard.tables import Table, Tile, bytes_of
from apps.plans.models import PlanRun, Step
from apps.record.content.rendering import summarize_parts
from apps.record.execution import Run
from apps.record.models import INTERRUPTED_STATES, Blob, Context, Task, TaskState
from apps.remote.models import RemoteAgent
from parley.db import sql
from parley.faces import cells
from parley.faces.cells import Tone

MOST = 10_000  # counted; lists may only estimate more
FAILURES = 8


@dataclass(frozen=True, slots=True)
class TileGroup:
    id: str
    title: str
    tiles: list[Tile]


def waiting_groups(viewer: User) -> list[TileGroup]:
    """What the viewer may see of it."""
    people = [
        *(_waiting_tasks() if may_view(viewer, Task) else ()),
        *(_approvals() if may_view(viewer, PlanRun) else ()),
        *(_changed_cards() if may_view(viewer, RemoteAgent) else ()),
    ]
    machines = [
        *(_runs() if may_view(viewer, Run) else ()),
        *(_deliveries() if may_view(viewer, Delivery) else ()),
    ]
    groups = (
        TileGroup("people", "Waiting for people", people),
        TileGroup("machines", "Waiting for machines", machines),
    )
    return [group for group in groups if group.tiles]


def _tile(words: str, tone: Tone, rows: QuerySet[Any], order: str = "", moment: str = "", **filters: Any) -> Tile:
    """The number of rows, as a link to them; "10,000+" for more. With an `order`, also its first row: the oldest."""
    number = rows.order_by().values("pk")[: MOST + 1].count()
    shown = f"{number:,}" if number <= MOST else f"{MOST:,}+"
    oldest = _oldest(rows, order, moment or order) if order else ""
    return Tile(cells.state(words, tone), cells.link(shown, cells.list_url(rows.model, **filters)), oldest)


def _oldest(rows: QuerySet[Any], order: str, moment: str) -> Any:
    """Since when the oldest row waits, as a link to it; "" for none."""
    oldest = rows.order_by(order).only("pk", moment).first()
    if oldest is None:
        return ""
    return cells.link(cells.relative_time(getattr(oldest, moment)), cells.page_url(rows.model, oldest.pk))


def _waiting_tasks() -> Iterator[Tile]:
    for state in INTERRUPTED_STATES:
        rows = Task.objects.unfinished().filter(state=state)
        yield _tile(state, columns.TASK_TONES[state], rows, "status_at", state__exact=state)


def _approvals() -> Iterator[Tile]:
    """Plan runs with a step that asks a person for a decision."""
    asking = PlanRun.objects.unfinished().filter(pk__in=Step.objects.asking().values("run"))
    yield _tile("plans that ask", Tone.WAITING, asking, "created_at", asking=1)


def _changed_cards() -> Iterator[Tile]:
    changed = RemoteAgent.objects.filter(proposed__isnull=False)
    yield _tile("changed cards", Tone.WAITING, changed, proposed__isempty=0)


def _runs() -> Iterator[Tile]:
    for state, moment in ((Run.State.QUEUED, "queued_at"), (Run.State.RUNNING, "started_at")):
        rows = Run.objects.unfinished().filter(state=state)
        yield _tile(state.value, columns.RUN_TONES[state], rows, moment, state__exact=state.value)


def _deliveries() -> Iterator[Tile]:
    """Each state has an index of its own."""
    waiting, dead = Delivery.State.WAITING, Delivery.State.DEAD
    rows, tones = Delivery.objects.order_by(), DeliveryAdmin.tones
    due = rows.filter(state__any_of=(waiting,))
    yield _tile("webhook backlog", tones[waiting], due, "pk", "created_at", state__exact=waiting)
    yield _tile("failed deliveries", tones[dead], rows.filter(state__any_of=(dead,)), state__exact=dead)


def faulty_tasks(shown: TimeRange) -> Iterator[Tile]:
    """Tasks that failed, were rejected or canceled in the range, by their index."""
    within = {"status_at__gte": shown.period.start, "status_at__lt": shown.period.end}
    for state in (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED):
        rows, filters = Task.objects.filter(state__any_of=(state,), **within), shown.within("status_at")
        yield _tile(f"tasks {state}", columns.TASK_TONES[state], rows, state__exact=state, **filters)


def newest_failures(shown: TimeRange) -> Table:
    begin, end = shown.period.start, shown.period.end
    failed = Task.objects.filter(
        state__any_of=(TaskState.FAILED, TaskState.REJECTED), status_at__gte=begin, status_at__lt=end
    )
    newest = failed.select_related("agent").order_by("-status_at")[:FAILURES]
    rows = [
        (
            columns.id_(task),
            columns.task_state(task),
            columns.agent(task),
            cells.shortened(summarize_parts((task.status_message or {}).get("parts", []))) or "–",
            columns.since(task),
        )
        for task in newest
    ]
    headings = ("task", "state", "agent", "message", "since")
    return Table("failed-tasks", "Newest failed tasks", headings, rows, "No task failed in this range.", numeric=False)


def workers(viewer: User) -> Table:
    """The processes that gave a heartbeat in the last day."""
    now = sql.database_time()
    rows = []
    for process in ServerProcess.objects.order_by("-kind", "host", "pid"):
        is_seen = process.seen_at > now - SEEN_WITHIN
        load: Any = "–"
        if process.kind == ServerProcess.Kind.WORKER:
            load = f"{process.busy:,} of {process.capacity:,}" + (f", {process.waiting:,} wait" * bool(process.waiting))
            if may_view(viewer, Run):
                own = {"state__exact": Run.State.RUNNING, "q": f"{process.host}:{process.pid}:"}
                load = cells.link(load, cells.list_url(Run, **own))
        state = cells.state("alive", Tone.DONE) if is_seen else cells.state("not seen", Tone.FAILED)
        name = f"{process.get_kind_display()} {process.host}:{process.pid}"
        rows.append((name, state, load, cells.relative_time(process.seen_at)))
    return Table(
        "workers", "Workers", ("process", "state", "runs of its capacity", "heartbeat"), rows,
        "No worker has been seen. Tasks wait until one starts.",
    )  # fmt: skip


STORED: dict[str, tuple[type[Model], dict[str, Any]]] = {
    "files": (Blob, {}),
    "uploads": (Upload, {}),
    "archives": (Context, {"cold_at__isempty": 0}),
}


def storage(viewer: User) -> list[Tile]:
    """What the periodic job measured last."""
    found = []
    for size in StorageSize.objects.order_by("name"):
        model, filters = STORED.get(size.name, (None, {}))
        if model is not None and not may_view(viewer, model):
            continue
        number: Any = bytes_of(size.bytes)
        rows = "" if size.rows is None else f"{size.rows:,} stored"
        found.append(Tile(size.name, cells.link(number, cells.list_url(model, **filters)) if model else number, rows))
    return found
