"""Tasks as operators see them. What they can do with one is in `apps.operators.engine`."""

from __future__ import annotations

from django.contrib.admin import display
from django.urls import reverse
from django.utils.safestring import SafeString

from apps.accounts.models import User, Workspace
from apps.agents.models import Agent
from apps.operators.record import columns
from apps.operators.record.live import LiveAdmin
from apps.record.models import Context, Task
from apps.record.usage import Spent
from console import cells
from console.records import structured


class TaskAdmin(LiveAdmin):
    list_display = (
        columns.id_,
        columns.task_state,
        columns.agent,
        columns.owner,
        columns.context,
        columns.since,
        columns.created,
    )
    list_filter = ("state", "agent")
    search_fields = ("owner__email", "context__title")
    search_help_text = "Id of a task or context, owner's e-mail, title"
    id_lookups = ("pk", "context_id", "parent_id")
    date_hierarchy = "status_at"
    ordering = ("-status_at",)
    select_related = ("agent", "owner", "workspace", "context")
    narrowings = {
        "context__id__exact": ("context", Context),
        "owner__id__exact": ("owner", User),
        "agent__id__exact": ("agent", Agent),
        "workspace__id__exact": ("workspace", Workspace),
        "parent__id__exact": ("children of", Task),
    }
    fields = (
        "key",
        columns.created,
        "refines",
        "parent_task",
        "plan",
        "workspace",
        "children",
        "language_models",
        structured("slot"),
        structured("status_message"),
        structured("metadata"),
    )

    @display(description="id")
    def key(self, task: Task) -> SafeString:
        return cells.ident(task.pk)

    @display(description="refines")
    def refines(self, task: Task) -> SafeString:
        found = [cells.row_id(Task, key) for key in task.references]
        return SafeString(" ".join(found)) if found else cells.NOTHING

    @display(description="parent")
    def parent_task(self, task: Task) -> SafeString:
        return cells.row_id(Task, task.parent_id)

    @display(description="run of a plan")
    def plan(self, task: Task) -> SafeString:
        """The run that it is, or is a step of."""
        tasks = [task, *([task.parent] if task.parent else [])]
        run = next((one.pk for one in tasks if one.agent.kind == Agent.Kind.PLAN), None)
        return cells.ident(run, reverse("admin:plans_planrun_change", args=[run])) if run else cells.NOTHING

    @display(description="children")
    def children(self, task: Task) -> SafeString:
        return cells.number(task.children.count(), Task, parent__id__exact=task.pk)

    @display(description="language models")
    def language_models(self, task: Task) -> SafeString:
        return cells.lines(Spent.of(task.runs.values_list("usage", flat=True)).lines)
