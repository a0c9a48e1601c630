"""Admin pages of plans and plan runs."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import Media
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.forms import BaseDialogForm
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from apps.accounts.models import User
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import house_workspace
from apps.engine.cancel import cancel_task
from apps.operators import columns
from apps.operators.dashboard.filters import OF_PLAN_RUNS
from apps.plans import progress, registry, runs
from apps.plans.definitions import OWN_INPUTS, PlanDefinition, as_yaml, line_of, properties_of
from apps.plans.graphs import plan_at
from apps.plans.models import Plan, PlanRun, Step
from apps.plans.progress import Progress, run_gantt, run_graph, waiting_reasons
from apps.record.content import strict_json
from apps.record.errors import InvalidFields, Refusal
from apps.record.lookup import check_may_use
from apps.record.models import Task, TaskState
from console import cells
from console.admin import (
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
from console.cells import Tone

STYLES = ("css/timeline.css", "css/task.css", "css/plan.css")
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

    @property
    def media(self) -> Media:
        return super().media + Media(css={"all": list(STYLES)})


def task_url(task: Task) -> str:
    return cells.page_url(Task, task.pk)


def steps_table(steps: list[Step], titles: dict[str, str]) -> dict[str, Any]:
    """The steps' tasks should be loaded."""
    headings = ("step", "state", "agent", "round", "attempt", "task", "asked", "started", "ended", "reason")
    return {"headings": headings, "rows": [(f"step-{step.pk}", _step_cells(step, titles)) for step in steps]}


def _step_cells(step: Step, titles: dict[str, str]) -> tuple[Any, ...]:
    number = f" {step.item + 1}" if step.item >= 0 else ""
    kept = "kept from an earlier run" if step.reused_id else ""
    return (
        f"{titles.get(step.key, step.key)}{number}",
        cells.state(step.state, STEP_TONES[Step.State(step.state)]),
        step.agent or cells.NOTHING,
        step.round,
        step.attempt,
        cells.row_link(Task, step.task_id),
        cells.row_link(Task, step.consulted_id),
        cells.relative_time(step.started_at),
        cells.relative_time(step.ended_at),
        cells.shortened(step.why or kept) or cells.NOTHING,
    )


JSON = dict[str, Any]
INPUT_PREFIX = "input-"  # inputs cannot collide with fields
MOST_PROBLEMS = 50  # of a definition
LONG_TEXT = 200  # characters; longer texts get several lines


class StartForm(forms.Form):
    """`key` is the message id: a double click starts the plan once."""

    text = forms.CharField(
        label="Message",
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="Templates use it as inputs.text.",
    )
    key = forms.UUIDField(widget=forms.HiddenInput)

    def __init__(self, definition: PlanDefinition, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.initial["key"] = uuid.uuid4()
        required = definition.inputs.get("required", [])
        for name, schema in properties_of(definition.inputs).items():
            if name not in OWN_INPUTS:
                about = schema if isinstance(schema, dict) else {}
                self.fields[f"{INPUT_PREFIX}{name}"] = _input_field(
                    name, about, name in required and "default" not in about
                )
        self.order_fields([*(name for name in self.fields if name.startswith(INPUT_PREFIX)), "text", "key"])

    @property
    def inputs(self) -> JSON:
        filled = ((name, value) for name, value in self.cleaned_data.items() if name.startswith(INPUT_PREFIX))
        return {name.removeprefix(INPUT_PREFIX): value for name, value in filled if value not in (None, "")}

    def complain(self, path: str, sentence: str) -> None:
        """For a path such as `inputs.city`."""
        field = INPUT_PREFIX + path.removeprefix("inputs.").partition(".")[0]
        self.add_error(
            field if field in self.fields else None, sentence if field in self.fields else f"{path}: {sentence}"
        )


def _input_field(name: str, schema: JSON, required: bool) -> forms.Field:
    about: JSON = {
        "label": schema.get("title") or name.replace("_", " ").capitalize(),
        "help_text": schema.get("description", ""),
        "initial": schema.get("default"),
        "required": required,
    }
    match schema:
        case {"enum": list(choices)} if all(isinstance(one, str) for one in choices):
            empty = [] if required else [("", "–")]
            options = [*empty, *((one, one) for one in choices)]
            return forms.ChoiceField(choices=options, widget=UnfoldAdminSelectWidget, **about)
        case {"type": "string"}:
            is_long = schema.get("maxLength", 0) > LONG_TEXT
            widget = UnfoldAdminTextareaWidget(attrs={"rows": 4}) if is_long else UnfoldAdminTextInputWidget()
            return forms.CharField(widget=widget, **about)
        case {"type": "integer"}:
            return forms.IntegerField(widget=UnfoldAdminIntegerFieldWidget, **about)
        case {"type": "number"}:
            return forms.FloatField(widget=UnfoldAdminDecimalFieldWidget, **about)
        case {"type": "boolean"}:
            return forms.BooleanField(widget=UnfoldBooleanWidget, **{**about, "required": False})
    about["help_text"] = f"{about['help_text']} As JSON.".strip()
    return strict_json.FormField(widget=UnfoldAdminTextareaWidget(attrs={"rows": 4, "spellcheck": "false"}), **about)


class PlanForm(forms.ModelForm):  # type: ignore[type-arg]
    """A plan's definition as YAML, and its policies. `user` writes it, and must be able to use its agents."""

    user: User
    definition = forms.CharField(
        label="Definition (YAML)",
        strip=False,
        widget=UnfoldAdminTextareaWidget(
            attrs={"rows": 28, "spellcheck": "false", "wrap": "off", "class": "font-mono"}
        ),
        help_text="The name, the description and the steps of the plan.",
    )
    note = forms.CharField(
        required=False,
        max_length=200,
        widget=UnfoldAdminTextInputWidget(),
        help_text="What is new in this version.",
    )
    base = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Plan
        fields = ("slug", "is_enabled", "access", "groups")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.read: PlanDefinition | None = None
        version = self.instance.current_version if self.instance.pk else None
        self.initial["definition"] = as_yaml(version.content) if version else registry.EXAMPLE_PLAN
        self.initial["base"] = str(version.number) if version else ""

    def clean_slug(self) -> str:
        slug = str(self.cleaned_data["slug"])
        if slug in registry.RESERVED_SLUGS:
            raise ValidationError(f"Parley's own pages use the name {slug}. Choose another one.")
        if Agent.objects.filter(slug=slug).exists():
            raise ValidationError(f"The name {slug} is taken. Choose another one.")
        return slug

    def clean_definition(self) -> str:
        """Raises ValidationError with a sentence per problem, by line."""
        text = self.cleaned_data["definition"].replace("\r\n", "\n")
        slug = self.instance.slug or self.cleaned_data.get("slug", "")
        try:
            self.read = PlanDefinition.from_yaml(text)
            registry.validate(self.read, slug, self.user.principal)
        except ValidationError as error:
            raise ValidationError([_at_line(text, *one) for one in error_pairs(error)]) from None
        return str(text)

    def clean(self) -> JSON:
        if self.data.get("base", "") != self.initial["base"]:
            number = self.initial["base"]
            said = f"Version {number} was saved while you were editing. Compare it with yours, then save again."
            self.data = data = cast("QueryDict", self.data).copy()
            data["base"] = number
            raise ValidationError(said)
        return self.cleaned_data

    def save_plan(self, plan: Plan) -> None:
        """Save the plan, as a new version if the definition changed. Raises ValidationError."""
        assert self.read is not None
        given = {name: self.cleaned_data[name] for name in ("is_enabled", "access")}
        about: JSON = {"author": self.user, "note": self.cleaned_data["note"], **given}
        if plan.pk:
            registry.update_plan(plan, self.read, **about)
        else:
            made = registry.register_plan(plan.slug, self.read, workspace=house_workspace(), **about)
            plan.pk = made.pk
        plan.refresh_from_db()


def error_pairs(error: ValidationError) -> list[tuple[str, str]]:
    """The paths and sentences of a definition's problems."""
    found = error.message_dict if hasattr(error, "error_dict") else {"file": error.messages}
    return [(path, sentence) for path, sentences in found.items() for sentence in sentences][:MOST_PROBLEMS]


def _at_line(text: str, path: str, sentence: str) -> str:
    if path == "file":
        return sentence
    line = line_of(text, path)
    return f"Line {line}, {path}: {sentence}" if line else f"{path}: {sentence}"


@admin.register(Plan)
class PlanAdmin(DiagramAdmin):
    """Plans, and the form of their definitions. People's pages have an editor with a live picture."""

    form = PlanForm

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
        return super().get_form(request, obj, change, form=type("PlanForm", (PlanForm,), {"user": request.user}))

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
        """In the operator's name."""
        plan, user = self.get_or_404(request, object_id), request.user
        assert isinstance(user, User)
        definition = registry.definition_of(plan)
        if definition is None:
            messages.error(request, f"{plan.name} cannot be started because its definition cannot be read.")
            return redirect(cells.page_url(Plan, plan.pk))
        form = StartForm(definition, request.POST if request.method == "POST" else None)
        if form.is_valid() and (begun := self._begun(form, user, plan)):
            self.log_change(request, plan, f"Started as task {begun}.")
            messages.success(request, f"{plan.name} has started.")
            return redirect(cells.page_url(Task, begun))
        page = {**self.admin_site.each_context(request), "title": f"Start {plan.name}", "opts": self.opts}
        return TemplateResponse(request, "admin/plans/start.html", page | {"form": form, "plan": plan})

    def _begun(self, form: StartForm, user: User, plan: Plan) -> Any:
        """The run's task; None if refused, with errors in the form."""
        given, key = form.inputs, str(form.cleaned_data["key"])
        try:
            check_may_use(user.principal, plan)
            return runs.start_run(user.principal, plan, given, key=key, text=form.cleaned_data["text"]).task
        except InvalidFields as unfit:
            for path, sentence in unfit.violations:
                form.complain(path, sentence)
        except Refusal as refusal:
            form.add_error(None, str(refusal))
        return None

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


MOST_REASONS = 20
PAUSE_DIALOG = {
    "title": "Pause this run?",
    "description": "No new steps start until you resume the run. Steps that are running continue.",
    "form_submit_text": "Pause",
}
RESUME_DIALOG = {
    "title": "Resume this run?",
    "description": "Steps that are ready start at once.",
    "form_submit_text": "Resume",
}
CANCEL_DIALOG = {
    "title": "Cancel this run?",
    "description": "The run ends and all its steps are canceled. You cannot undo this.",
    "form_submit_text": "Cancel the run",
}


class RunAgainForm(BaseDialogForm):
    step = forms.ChoiceField(label="Start from", widget=UnfoldAdminSelectWidget)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        run = None
        with suppress(ValidationError):  # no id in the URL
            run = PlanRun.objects.select_related("task__agent").filter(pk=self.object_id).first()
        if run is not None:
            plan = plan_at(run.task.agent.current_version_id or run.version_id)
            field = self.fields["step"]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [(key, plan.title_of(key)) for key in plan.definition.steps]
            field.initial = runs.first_unfinished_step(run)


RUN_AGAIN_DIALOG = {
    "title": "Run it again?",
    "description": "A new run for its owner, with the current version. Results that don't depend on the step are kept.",
    "form_submit_text": "Run again",
    "form_class": RunAgainForm,
}


@admin.register(PlanRun)
class PlanRunAdmin(DiagramAdmin):
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
    actions_detail = ("pause", "resume", "cancel", "again")

    select_related = ("task__agent", "task__owner", "version")
    deferred = ("version__content",)
    operate_permission = "plans.change_planrun"

    def is_offered(self, action: str, row: PlanRun) -> bool:
        if row.task.is_finished:
            return action == "again"
        return action in ("cancel", "resume" if row.paused_at else "pause")

    def page_context(self, request: HttpRequest, row: PlanRun) -> dict[str, Any]:
        progress, now, is_over = Progress.of(row), timezone.now(), row.task.is_finished
        titles = {key: progress.plan.title_of(key) for key in progress.plan.definition.steps}
        return {
            "graph": run_graph(progress, now, task_url),
            "gantt": run_gantt(progress, now, task_url, is_over=is_over),
            "reasons": [] if is_over else waiting_reasons(progress)[:MOST_REASONS],
            "steps": steps_table(progress.steps, titles),
        }

    @action(description="Pause", permissions=["operate"], icon="pause", dialog=PAUSE_DIALOG, url_path="pause")
    def pause(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        return self._done(request, object_id, "Paused", runs.pause_run)

    @action(description="Resume", permissions=["operate"], icon="play_arrow", dialog=RESUME_DIALOG, url_path="resume")
    def resume(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        return self._done(request, object_id, "Resumed", runs.resume_run)

    @action(description="Cancel", permissions=["operate"], icon="stop_circle", dialog=CANCEL_DIALOG, url_path="cancel")
    def cancel(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        return self._done(request, object_id, "Canceled", _cancel_unless_ended)

    @action(description="Run again", permissions=["operate"], icon="replay", dialog=RUN_AGAIN_DIALOG, url_path="again")
    def again(self, request: HttpRequest, form: RunAgainForm, object_id: str) -> HttpResponse:
        if (run := self.get_object(request, object_id)) is not None:
            owner = run.task.owner.principal if run.task.owner else ANONYMOUS
            try:
                begun = runs.rerun(owner, run, form.cleaned_data["step"])
            except Refusal as refusal:
                messages.error(request, f"The run was not repeated. {refusal}")
            else:
                self.log_change(request, run, f"Run again as {begun.task}.")
                new = cells.link(begun.task, cells.page_url(Task, begun.task))
                messages.success(request, format_html("Running again as task {}.", new))
        return redirect_dialog(PlanRun, object_id)

    def _done(self, request: HttpRequest, object_id: str, word: str, do: Any) -> HttpResponse:
        if (run := self.get_object(request, object_id)) is not None and do(run):
            self.log_change(request, run, f"{word}.")
            messages.success(request, f"{word}.")
        else:
            messages.warning(request, "Nothing was changed: the run is in another state by now.")
        return redirect_dialog(PlanRun, object_id)

    @display(description="state", ordering="task__state")
    def state(self, run: PlanRun) -> SafeString:
        shown: SafeString = columns.task_state(run.task)
        return format_html("{} (paused)", shown) if run.paused_at and not run.task.is_finished else shown


def _cancel_unless_ended(run: PlanRun) -> bool:
    if TaskState(run.task.state).is_terminal:
        return False
    cancel_task(run.task)
    return True
