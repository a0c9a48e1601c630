"""Admin pages of tasks and runs."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from unfold.decorators import action

from apps.accounts.models import User, Workspace
from apps.agents.models import Agent, AgentVersion
from apps.operators import columns
from apps.operators.actions import button, list_action
from apps.operators.dashboard.filters import OF_RUNS
from apps.operators.panels import LiveAdmin, may_view
from apps.operators.work import task_actions
from apps.operators.work.documents import json_panel, json_response, run_document, task_document
from apps.operators.work.task_actions import ANSWER_DIALOG, AnswerForm
from apps.record.errors import Refusal
from apps.record.execution import Run
from apps.record.models import FAULTY_STATES, UNFINISHED_STATES, Artifact, Context, Message, Task, TaskState
from apps.record.runs import UsageTotals
from console import cells
from console.admin import IndexedStates, column, count_cell, id_cell, json_cell, key_cell, redirect_dialog, time_cell


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
        *map(columns.content_cell, ("slot", "status_message", "metadata")),
    )
    export_fields = ("agent__slug", "owner__email")
    operate_permission = task_actions.CHANGE_TASK
    actions = ("cancel_selected", "run_selected_again", "give_selected_back")
    actions_detail = ("answer", "cancel", "run_again", "give_back")

    cancel = button(task_actions.CANCEL, icon="stop_circle", url_path="cancel", dialog=task_actions.CANCEL_DIALOG)
    run_again = button(
        task_actions.RUN_AGAIN, icon="replay", url_path="run-again", dialog=task_actions.RUN_AGAIN_DIALOG
    )
    give_back = button(task_actions.GIVE_BACK, icon="undo", url_path="give-back", dialog=task_actions.GIVE_BACK_DIALOG)
    cancel_selected = list_action(task_actions.CANCEL)
    run_selected_again = list_action(task_actions.RUN_AGAIN)
    give_selected_back = list_action(task_actions.GIVE_BACK)

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

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.json)
        return [path("<uuid:pk>/json/", view, name="record_task_json"), *super().get_urls()]

    def json(self, request: HttpRequest, pk: object) -> HttpResponse:
        task = self.get_or_404(request, pk)
        if not self.has_view_permission(request, task):
            raise PermissionDenied
        return json_response(_document_for(request, task), f"task-{pk}")

    def get_fields(self, request: HttpRequest, obj: Task | None = None) -> tuple[Any, ...]:
        """With the JSON that this viewer may see."""
        shown = column("A2A task", lambda task: json_panel(_document_for(request, task), _json_url("task", task)))
        return (*self.fields, shown)

    def is_offered(self, action: str, row: Task) -> bool:
        match action:
            case "cancel":
                return not row.is_finished
            case "answer":
                return row.state == TaskState.INPUT_REQUIRED
            case "give-back":
                return row.runs.filter(state=Run.State.RUNNING).exists()
            case _:
                return True


def _document_for(request: HttpRequest, task: Task) -> str:
    """Without the rows that the viewer may not see in tables either."""
    viewer = cast(User, request.user)
    return task_document(task, with_messages=may_view(viewer, Message), with_artifacts=may_view(viewer, Artifact))


def _json_url(model: str, row: Task | Run) -> str:
    return reverse(f"admin:record_{model}_json", args=[row.pk])


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
    list_filter = (("state", IndexedStates.of(("queued", "running"), ("failed", "canceled"))), "queued_at", *OF_RUNS)
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
        column("JSON", lambda run: json_panel(run_document(run), _json_url("run", run))),
    )
    export_fields = ("task__agent__slug",)
    operate_permission = "record.change_run"
    actions = ("give_selected_back",)
    actions_detail = ("give_back",)

    give_back = button(
        task_actions.GIVE_RUN_BACK, icon="undo", url_path="give-back", dialog=task_actions.GIVE_BACK_DIALOG
    )
    give_selected_back = list_action(task_actions.GIVE_RUN_BACK)

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

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.json)
        return [path("<uuid:pk>/json/", view, name="record_run_json"), *super().get_urls()]

    def json(self, request: HttpRequest, pk: object) -> HttpResponse:
        run = self.get_or_404(request, pk)
        if not self.has_view_permission(request, run):
            raise PermissionDenied
        return json_response(run_document(run), f"run-{pk}")

    def is_offered(self, action: str, row: Run) -> bool:
        return action != "give-back" or row.state == Run.State.RUNNING
