"""Admin pages of tasks and runs."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action

from apps.accounts.models import User, Workspace
from apps.agents.models import Agent, AgentVersion
from apps.agents.versions import run_side_by_side
from apps.engine.accept import REPEATS
from apps.engine.cancel import CANCEL, TASKS
from apps.engine.send import repetitions, run_again
from apps.operators import columns
from apps.operators.actions import may_view
from apps.operators.dashboard.filters import OF_RUNS, OF_TASKS
from apps.operators.documents import json_panel, json_response, run_document, task_document
from apps.operators.panels import LiveAdmin
from apps.record.admin.task_actions import (
    ANSWER_DIALOG,
    GIVE_BACK,
    GIVE_RUN_BACK,
    RUN_AGAIN,
    RUN_VERSION_DIALOG,
    AnswerForm,
    RunVersionForm,
)
from apps.record.errors import Refusal
from apps.record.execution import Run
from apps.record.models import FAULTY_STATES, UNFINISHED_STATES, Artifact, Context, Message, Task, TaskState
from apps.record.runs import UsageTotals
from parley.faces import cells
from parley.faces.admin import IndexedStates, MenuItem, column, count_cell, id_cell, key_cell, redirect_dialog


class DocumentAdmin(LiveAdmin):
    """A page that also has the JSON of its row, as this viewer may see it."""

    document_title = "JSON"

    def document(self, request: HttpRequest, row: Any) -> str:
        raise NotImplementedError

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.json)
        return [path("<uuid:pk>/json/", view, name=self._json_url_name), *super().get_urls()]

    @property
    def _json_url_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_json"

    def json(self, request: HttpRequest, pk: object) -> HttpResponse:
        row = self.get_or_404(request, pk)
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        return json_response(self.document(request, row), f"{self.opts.model_name}-{pk}")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[Any, ...]:
        def shown(row: Any) -> SafeString:
            return json_panel(self.document(request, row), reverse(f"admin:{self._json_url_name}", args=[row.pk]))

        return (*self.fields, column(self.document_title, shown))


@admin.register(Task)
class TaskAdmin(DocumentAdmin):
    menu = MenuItem("Record", 2, "task_alt")
    resource = TASKS
    acts = (CANCEL, RUN_AGAIN, GIVE_BACK)
    document_title = "A2A task"
    tones = columns.TASK_TONES
    list_display = (columns.id_, "state", "agent", "owner", columns.context, columns.since, "created_at")
    list_filter = (("state", IndexedStates.of(UNFINISHED_STATES, FAULTY_STATES)), "status_at", *OF_TASKS)
    list_filter_submit = True
    unindexed = ("in_worker",)
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
        id_cell("pk"), "created_at", "refines", "runs_again", "ran_again",
        key_cell(Task, "parent_id", "parent"), "plan", "workspace",
        count_cell("children", Task, "parent__id__exact", lambda task: task.children.count()), "language_models",
        *map(columns.content_cell, ("slot", "status_message", "metadata")),
    )  # fmt: skip
    export_fields = ("agent__slug", "owner__email")
    actions_detail = ("answer", "run_version")

    @action(description="Answer", permissions=["operate"], icon="reply", dialog=ANSWER_DIALOG, url_path="answer")
    def answer(self, request: HttpRequest, form: AnswerForm, object_id: str) -> HttpResponse:
        task = self.get_or_404(request, object_id)
        try:
            said = form.send()
        except Refusal as refusal:
            messages.error(request, str(refusal))
        else:
            self.log_change(request, task, said)
            messages.success(request, said)
        return redirect_dialog(Task, object_id)

    @action(
        description="Run another version",
        permissions=["operate"],
        icon="history",
        dialog=RUN_VERSION_DIALOG,
        url_path="run_version",
    )
    def run_version(self, request: HttpRequest, form: RunVersionForm, object_id: str) -> HttpResponse:
        task = self.get_or_404(request, object_id)
        try:
            made = run_again(task, version=form.chosen_version(task.agent)).task
        except Refusal as refusal:
            messages.error(request, str(refusal))
        else:
            self.log_change(request, task, f"Runs again as task {made}.")
            messages.success(request, format_html("Running again as task {}.", cells.row_link(Task, made)))
        return redirect_dialog(Task, object_id)

    @display(description="runs again")
    def runs_again(self, task: Task) -> SafeString:
        return cells.row_link(Task, task.metadata.get(REPEATS))

    @display(description="ran again as")
    def ran_again(self, task: Task) -> SafeString:
        _, later = repetitions(Task.objects.all(), task)
        return cells.lines(format_html("{} {}", columns.task_state(one), cells.row_link(Task, one.pk)) for one in later)

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

    def document(self, request: HttpRequest, row: Task) -> str:
        """Without the rows that the viewer may not see in tables either."""
        viewer = cast(User, request.user)
        return task_document(row, with_messages=may_view(viewer, Message), with_artifacts=may_view(viewer, Artifact))

    def is_offered(self, action: str, row: Task) -> bool:
        if action == "run_version":
            return run_side_by_side(row.agent) and row.agent.versions.count() > 1
        return row.state == TaskState.INPUT_REQUIRED if action == "answer" else super().is_offered(action, row)


@admin.register(Run)
class RunAdmin(DocumentAdmin):
    menu = MenuItem("Record", 3, "directions_run")
    acts = (GIVE_RUN_BACK,)
    tones = columns.RUN_TONES
    list_display = (
        columns.id_, "state", columns.task, "turn", "attempt", columns.worker, columns.lease, columns.queued,
        columns.took, columns.problem,
    )  # fmt: skip
    list_filter = (("state", IndexedStates.of(("queued", "running"), ("failed", "canceled"))), "queued_at", *OF_RUNS)
    list_filter_submit = True
    unindexed = ("slug", "in_worker")
    search_fields = ("worker",)
    search_help_text = "Id of a run or task, or a worker"
    id_lookups = ("pk", "task_id")
    ordering = ("-queued_at",)
    sortable_by = (columns.queued,)
    select_related = ("task", "message", "agent")
    link_filters = {"task__id__exact": ("task", Task)}
    fields = (
        id_cell("pk"), "fence", "interrupted", "resumed", "queued_at", "published_at", "started_at", "finished_at",
        "answers", column("agent", columns.agent), "version", id_cell("input_hash", "input hash"),
        id_cell("traceparent", "trace"), "language_models", "error", "notes", "input", "memory",
        "slot", "remote",
    )  # fmt: skip
    export_fields = ("task__agent__slug",)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """By the end where links ask for runs that ended in a range: along its index."""
        return ("-finished_at",) if "finished_at__gte" in request.GET else cast(Any, self.ordering)

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

    def document(self, request: HttpRequest, row: Run) -> str:
        return run_document(row)
