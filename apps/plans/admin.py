"""Admin pages of plans and plan runs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from apps.accounts.models import User
from apps.accounts.principals import ANONYMOUS
from apps.agents.admin.versions import VersionForm
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import house_workspace
from apps.operators import columns
from apps.operators.actions import ActingAdmin
from apps.operators.dashboard.filters import OF_PLAN_RUNS
from apps.plans import progress, registry
from apps.plans.definitions import as_yaml
from apps.plans.forms import PlanForm
from apps.plans.models import Plan, PlanRun, Step
from apps.plans.progress import RESTARTABLE, Progress, run_pictures
from apps.plans.running import runs
from apps.record.errors import Refusal
from apps.record.models import Task
from parley.faces import cells
from parley.faces.admin import (
    MenuItem,
    ReadOnlyAdmin,
    column,
    id_cell,
    json_cell,
    key_cell,
    page_link,
    redirect_dialog,
    related_cell,
    time_cell,
)
from parley.faces.cells import Tone

STEP_TONES = {
    Step.State.WAITING: Tone.QUEUED,
    Step.State.STARTING: Tone.WORKING,
    Step.State.RUNNING: Tone.WORKING,
    Step.State.ASKING: Tone.WAITING,
    Step.State.ENDED: Tone.WORKING,
    Step.State.DONE: Tone.DONE,
    Step.State.FAILED: Tone.FAILED,
    Step.State.SKIPPED: Tone.STOPPED,
    Step.State.CANCELED: Tone.STOPPED,
}


class DiagramAdmin(ReadOnlyAdmin):
    """A read-only page with a picture."""

    class Media:
        css = {"all": ("css/timeline.css", "css/task.css", "css/plan.css")}


def task_url(task: Task) -> str:
    return cells.page_url(Task, task.pk)


def steps_table(progress: Progress, again: str) -> dict[str, Any]:
    """`again`: the address of the dialog that runs it again; "" if it cannot."""
    headings = ["step", "state", "agent", "round", "attempt", "task", "asked", "started", "ended", "reason"]
    rows = [(f"step-{one.pk}", _step_cells(one, progress, again)) for one in progress.steps]
    return {"headings": [*headings, "run again"] if again else headings, "rows": rows}


DIALOG_LINK = (
    '<a class="console-link" href="{0}" hx-get="{0}" hx-target="#modal-content" hx-select="#dialog"'
    ' x-on:htmx:after-on-load="openModal = true" aria-label="Run again from {1}">From here</a>'
)


def _step_cells(step: Step, progress: Progress, again: str) -> tuple[Any, ...]:
    address = f"{again}?{urlencode({'step': step.key})}"
    is_start = again and step.state in RESTARTABLE
    last = [format_html(DIALOG_LINK, address, step.key) if is_start else cells.NOTHING] if again else []
    return (
        progress.plan.numbered_title(step),
        cells.state(step.state, STEP_TONES[Step.State(step.state)]),
        step.agent or cells.NOTHING,
        step.round,
        step.attempt,
        cells.row_link(Task, step.task_id),
        cells.row_link(Task, step.consulted_id),
        cells.relative_time(step.started_at),
        cells.relative_time(step.ended_at),
        cells.shortened(step.note) or cells.NOTHING,
        *last,
    )


class AdminPlanForm(PlanForm):
    """With all policies. New plans belong to the installation."""

    class Meta(PlanForm.Meta):
        fields = ("slug", "is_enabled", "access", "groups")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        code = {"rows": 28, "spellcheck": "false", "wrap": "off", "class": "font-mono"}
        self.fields["definition"].widget = UnfoldAdminTextareaWidget(attrs=code)
        self.fields["note"].widget = UnfoldAdminTextInputWidget()

    def save_plan(self, plan: Plan) -> None:
        """Save the plan, as a new version if the definition changed. Raises ValidationError."""
        assert self.read is not None
        given = {name: self.cleaned_data[name] for name in ("is_enabled", "access", "note")}
        if plan.pk:
            registry.update_plan(plan, self.read, author=self.user, **given)
        else:
            new = {"workspace": house_workspace(), **given}
            plan.pk = registry.register_plan(plan.slug, self.read, author=self.user, **new).pk
        plan.refresh_from_db()


@admin.register(Plan)
class PlanAdmin(DiagramAdmin):
    """Plans, and the form of their definitions. People's pages have an editor with a live picture."""

    menu = MenuItem("Plans", 1, "account_tree")
    form = AdminPlanForm

    name = page_link("name")
    version = related_cell("current_version", "version", text="number")
    list_display = (name, "slug", "access", version, column("steps", lambda plan: plan.size), time_cell("updated_at"))
    list_filter = ("access", "is_enabled")
    search_fields = ("slug", "name", "description")
    search_help_text = "Name, or a word of the description"
    id_lookups = ()
    ordering = ("name",)
    fields = (
        name,
        "slug",
        "description",
        "access",
        version,
        column("can be started", lambda plan: registry.health_problem(plan) or "yes"),
        column("agent", lambda plan: cells.link(f"/a2a/{plan.slug}", cells.page_url(Agent, plan.pk))),
        time_cell("updated_at"),
    )
    readonly_fields = fields
    filter_horizontal = ("groups",)
    operate_permission = "plans.change_plan"
    change_form_outer_before_template = "admin/plans/plan.html"
    actions_detail = ("start", "open_editor", "show_analytics", "show_versions", "show_runs")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("plans.add_plan")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("plans.change_plan")

    def get_fieldsets(self, request: HttpRequest, obj: Plan | None = None) -> Any:
        may_save = self.has_change_permission(request, obj) if obj else self.has_add_permission(request)
        if not may_save:
            return super().get_fieldsets(request, obj)
        form = (
            (None, {"fields": (*(() if obj else ("slug",)), "definition", "note", "base")}),
            ("Access", {"fields": ("is_enabled", "access", "groups")}),
        )
        facts = [one for one in self.fields if one != "access"]
        return (*form, ("Record", {"fields": facts})) if obj else form

    def get_readonly_fields(self, request: HttpRequest, obj: Plan | None = None) -> Any:
        own = {"access"} | (set() if obj else {"slug"})
        return [one for one in super().get_readonly_fields(request, obj) if one not in own]

    def get_form(self, request: HttpRequest, obj: Plan | None = None, change: bool = False, **kwargs: Any) -> Any:
        if not (self.has_change_permission(request, obj) if obj else self.has_add_permission(request)):
            return super().get_form(request, obj, change, form=forms.ModelForm, **kwargs)
        return super().get_form(request, obj, change, form=AdminPlanForm.by(cast("User", request.user)))

    def save_model(self, request: HttpRequest, obj: Plan, form: Any, change: bool) -> None:
        form.save_plan(obj)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """With the picture of what was written, as far as it can be read."""
        written = getattr(context["adminform"].form, "read", None)
        response = super().render_change_form(request, context, *args, **kwargs)
        if written is not None and isinstance(response, TemplateResponse):
            response.context_data = {**(response.context_data or {}), "graph": progress.definition_graph(written)}
        return response

    def get_queryset(self, request: HttpRequest) -> QuerySet[Plan]:
        found: QuerySet[Plan] = super().get_queryset(request)
        return registry.sized(found.filter(kind=Agent.Kind.PLAN).select_related("current_version"))

    def has_start_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        return request.user.has_perm("plans.add_planrun")

    def page_context(self, request: HttpRequest, row: Plan) -> dict[str, Any]:
        definition = registry.definition_of(row)
        return {
            "graph": progress.definition_graph(definition) if definition else None,
            "yaml": as_yaml(row.current_version.content) if row.current_version else "",
        }

    @action(description="Start", permissions=["start"], icon="play_arrow", url_path="start")
    def start(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """In the operator's name, on the page for people."""
        plan = self.get_or_404(request, object_id)
        if plan.is_open_to(cast("User", request.user).principal):
            return redirect(f"{reverse('web:plan', args=[plan.slug])}#start-title")
        messages.error(request, "You may not use this plan, so you cannot start it.")
        return redirect(cells.page_url(Plan, plan.pk))

    @action(description="Open the editor", permissions=["operate"], icon="edit", url_path="edit")
    def open_editor(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("web:plan-edit", self.get_or_404(request, object_id).slug)

    @action(description="Analytics", permissions=["view"], icon="query_stats", url_path="analytics")
    def show_analytics(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("operators:agent-analytics", self.get_or_404(request, object_id).pk)

    @action(description="Versions", permissions=["view"], icon="history", url_path="versions")
    def show_versions(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect(cells.list_url(AgentVersion, agent__id__exact=self.get_or_404(request, object_id).pk))

    @action(description="Runs", permissions=["view"], icon="account_tree", url_path="runs")
    def show_runs(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect(cells.list_url(PlanRun, task__agent__id__exact=self.get_or_404(request, object_id).pk))


class RunAgainForm(VersionForm):
    """From the step `?step=`, or the first that was not done."""

    step = forms.ChoiceField(label="Start from", widget=UnfoldAdminSelectWidget)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        with suppress(ValidationError, PlanRun.DoesNotExist):  # no id of a run in the URL
            run = PlanRun.objects.select_related("task__agent").get(pk=self.object_id)
            steps = cast("forms.ChoiceField", self.fields["step"])
            steps.choices = runs.restart_steps(run)
            steps.initial = self.request.GET.get("step") or runs.first_unfinished_step(run)
            self.offer_versions(run.task.agent)


RUN_AGAIN_DIALOG = {
    "title": "Run it again?",
    "description": "A new run for its owner. Results that don't depend on the step are kept.",
    "form_submit_text": "Run again",
    "form_class": RunAgainForm,
}


@admin.register(PlanRun)
class PlanRunAdmin(ActingAdmin, DiagramAdmin):
    menu = MenuItem("Plans", 2, "schema", "Plan runs")
    resource = runs.PLAN_RUNS
    acts = runs.PLAN_RUNS.acts
    plan = related_cell("task.agent", "plan", ordering="task__agent__name")
    owner = column("owner", lambda run: columns.owner(run.task))
    version = related_cell("version", text="number")
    list_display = (
        columns.id_,
        plan,
        "state",
        owner,
        version,
        time_cell("created_at", "started"),
        time_cell("finished_at"),
    )
    list_filter = ("task__state", *OF_PLAN_RUNS)
    search_fields = ("task__agent__slug", "task__agent__name", "task__owner__email")
    search_help_text = "Id of a run, its plan, or its owner's e-mail"
    date_hierarchy = "created_at"
    ordering = ("-created_at",)
    link_filters = {"task__agent__id__exact": ("plan", Agent)}
    fields = (
        plan,
        "state",
        owner,
        version,
        key_cell(Task, "pk", "task"),
        key_cell(PlanRun, "continues_id", "continues"),
        "begun_at_step",
        *map(time_cell, ("created_at", "paused_at", "advanced_at", "finished_at")),
        json_cell("inputs"),
        id_cell("traceparent", "trace"),
    )
    change_form_outer_before_template = "admin/plans/run.html"
    actions_detail = ("again",)

    select_related = ("task__agent", "task__owner", "version")
    deferred = ("version__content",)

    def is_offered(self, action: str, row: PlanRun) -> bool:
        return super().is_offered(action, row) and (action != "again" or row.task.is_finished)

    def page_context(self, request: HttpRequest, row: PlanRun) -> dict[str, Any]:
        progress = Progress.of(row)
        may_run = self.has_operate_permission(request) and self.is_offered("again", row)
        again = reverse("admin:plans_planrun_again", args=[row.pk]) if may_run else ""
        return {**run_pictures(progress, task_url), "steps": steps_table(progress, again)}

    @action(description="Run again", permissions=["operate"], icon="replay", dialog=RUN_AGAIN_DIALOG, url_path="again")
    def again(self, request: HttpRequest, form: RunAgainForm, object_id: str) -> HttpResponse:
        if (run := self.get_object(request, object_id)) is not None:
            owner = run.task.owner.principal if run.task.owner else ANONYMOUS
            try:
                version = form.chosen_version(run.task.agent)
                begun = runs.rerun(owner, run, form.cleaned_data["step"], version=version)
            except Refusal as refusal:
                messages.error(request, f"The run was not repeated. {refusal}")
            else:
                self.log_change(request, run, f"Run again as {begun.task}.")
                new = cells.link(begun.task, cells.page_url(Task, begun.task))
                messages.success(request, format_html("Running again as task {}.", new))
        return redirect_dialog(PlanRun, object_id)

    @display(description="state", ordering="task__state")
    def state(self, run: PlanRun) -> SafeString:
        shown: SafeString = columns.task_state(run.task)
        return format_html("{} (paused)", shown) if run.is_paused else shown
