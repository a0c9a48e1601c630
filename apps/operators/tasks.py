"""Admin pages of tasks and runs."""

from __future__ import annotations

from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action

from apps.accounts.models import User, Workspace
from apps.agents.models import Agent, AgentVersion
from apps.engine import cancel
from apps.engine.send import run_again
from apps.operators import columns
from apps.operators.panels import LiveAdmin
from apps.record.errors import Refusal, TaskNotCancelable
from apps.record.models import FAULTY_STATES, UNFINISHED_STATES, Context, Message, Run, Task
from apps.record.runs import UsageTotals
from console import cells
from console.admin import IndexedStates, column, count_cell, id_cell, json_cell, key_cell, redirect_dialog, time_cell

CANCEL_DIALOG = {
    "title": "Cancel this task?",
    "description": "The agent stops, and its unfinished results are discarded. This cannot be undone.",
    "form_submit_text": "Cancel the task",
}
RUN_AGAIN_DIALOG = {
    "title": "Run this task again?",
    "description": "Sends the task's first message again for its owner, as a new task in the same session.",
    "form_submit_text": "Run again",
}


@admin.register(Task)
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
    list_filter = (("state", IndexedStates.of(UNFINISHED_STATES, FAULTY_STATES)), "status_at", "agent")
    search_fields = ("owner__email", "context__title")
    search_help_text = "Id of a task or session, owner's e-mail, title"
    id_lookups = ("pk", "context_id", "parent_id")
    ordering = ("-status_at",)
    sortable_by = (columns.since,)
    select_related = ("agent", "owner", "workspace", "context")
    link_filters = {
        "context__id__exact": ("context", Context),
        "owner__id__exact": ("owner", User),
        "agent__id__exact": ("agent", Agent),
        "workspace__id__exact": ("workspace", Workspace),
        "parent__id__exact": ("children of", Task),
    }
    fields = (
        id_cell("pk"),
        columns.created,
        "refines",
        key_cell(Task, "parent_id", "parent"),
        "plan",
        "workspace",
        count_cell("children", Task, "parent__id__exact", lambda task: task.children.count()),
        "language_models",
        *map(json_cell, ("slot", "status_message", "metadata")),
    )
    operate_permission = "record.change_task"
    actions = ("cancel_selected", "run_selected_again")
    actions_detail = ("cancel", "run_again")

    @display(description="refines")
    def refines(self, task: Task) -> SafeString:
        found = [cells.row_link(Task, key) for key in task.references]
        return SafeString(" ".join(found)) if found else cells.NOTHING

    @display(description="plan run")
    def plan(self, task: Task) -> SafeString:
        """The plan run that the task is, or is a step of."""
        tasks = [task, *([task.parent] if task.parent else [])]
        run = next((one.pk for one in tasks if one.agent.kind == Agent.Kind.PLAN), None)
        return cells.identifier(run, reverse("admin:plans_planrun_change", args=[run])) if run else cells.NOTHING

    @display(description="language models")
    def language_models(self, task: Task) -> SafeString:
        return cells.lines(UsageTotals.of(task.runs.values_list("usage", flat=True)).lines)

    def is_offered(self, action: str, row: Task) -> bool:
        return action != "cancel" or not row.is_finished

    @action(description="Cancel", permissions=["operate"], icon="stop_circle", dialog=CANCEL_DIALOG, url_path="cancel")
    def cancel(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        self._cancel(request, list(self.get_queryset(request).filter(pk=object_id)))
        return redirect_dialog(Task, object_id)

    @action(
        description="Run again", permissions=["operate"], icon="replay", dialog=RUN_AGAIN_DIALOG, url_path="run-again"
    )
    def run_again(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        self._run_again(request, list(self.get_queryset(request).filter(pk=object_id)))
        return redirect_dialog(Task, object_id)

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel_selected(self, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        self._cancel(request, list(tasks))

    @admin.action(description="Run again as new tasks", permissions=["operate"])
    def run_selected_again(self, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        self._run_again(request, list(tasks))

    def _cancel(self, request: HttpRequest, tasks: list[Task]) -> None:
        ended = 0
        for task in tasks:
            try:
                if task.is_finished:
                    raise TaskNotCancelable
                cancel.cancel_task(task)
                self.log_change(request, task, "Canceled.")
            except TaskNotCancelable:
                ended += 1
        if canceled := len(tasks) - ended:
            messages.success(request, f"{_tasks_were(canceled)} canceled.")
        if ended:
            messages.warning(request, f"{_tasks_were(ended)} not canceled: already ended.")

    def _run_again(self, request: HttpRequest, tasks: list[Task]) -> None:
        for task in tasks:
            try:
                receipt = run_again(task)
            except Refusal as refusal:
                messages.error(request, f"Task {task.pk} was not run again. {refusal}")
                continue
            self.log_change(request, task, f"Run again as {receipt.task}.")
            new = cells.link(receipt.task, cells.page_url(Task, receipt.task))
            messages.success(request, format_html("Running again as task {}.", new))


def _tasks_were(number: int) -> str:
    return "1 task was" if number == 1 else f"{number} tasks were"


@admin.register(Run)
class RunAdmin(LiveAdmin):
    list_display = (
        columns.id_,
        columns.run_state,
        columns.task,
        columns.turn,
        columns.attempt,
        columns.worker,
        columns.lease,
        columns.queued,
        columns.took,
        columns.problem,
    )
    list_filter = (("state", IndexedStates.of(("queued", "running"), ("failed", "canceled"))), "queued_at")
    search_fields = ("worker",)
    search_help_text = "Id of a run or task, or a worker"
    id_lookups = ("pk", "task_id")
    ordering = ("-queued_at",)
    sortable_by = (columns.queued,)
    select_related = ("task", "message", "agent")
    link_filters = {"task__id__exact": ("task", Task)}
    fields = (
        id_cell("pk"),
        "fence",
        "interrupted",
        "resumed",
        *map(time_cell, ("queued_at", "published_at", "started_at", "finished_at")),
        "answers",
        column("agent", columns.agent),
        "version",
        id_cell("input_hash", "input hash"),
        id_cell("traceparent", "trace"),
        "language_models",
        *map(json_cell, ("error", "notes", "input", "memory", "slot", "remote")),
    )

    @display(description="message")
    def answers(self, run: Run) -> SafeString:
        return cells.identifier(run.message.message_id, cells.page_url(Message, run.message_id))

    @display(description="version of the agent")
    def version(self, run: Run) -> SafeString:
        used = run.input.get("agent")
        return cells.link(used["number"], cells.page_url(AgentVersion, used["version"])) if used else cells.NOTHING

    @display(description="language models")
    def language_models(self, run: Run) -> SafeString:
        return cells.lines(UsageTotals.of([run.usage]).lines)
