"""Operators' pages of runs of plans: how far each is, who worked when, and what is done with it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminSelectWidget

from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent, AgentVersion
from apps.engine.canceling import cancel_found
from apps.operators.plans.drawn import DrawnAdmin, address, steps_table
from apps.operators.record import columns
from apps.plans import controls, depicting
from apps.plans.depicting import Progress
from apps.plans.models import PlanRun
from apps.plans.plans import plan_at
from apps.plans.reasons import reasons
from apps.record.errors import Refusal
from apps.record.lifecycle import TaskState
from apps.record.models import Task
from console import cells
from console.records import structured, timed

MOST_REASONS = 20
PAUSE = {
    "title": "Pause this run?",
    "description": "No further step begins until it is resumed. What is being worked at goes on.",
    "form_submit_text": "Pause",
}
RESUME = {
    "title": "Resume this run?",
    "description": "Steps begin again as soon as what they wait for is done.",
    "form_submit_text": "Resume",
}
CANCEL = {
    "title": "Cancel this run?",
    "description": "The run ends, and all that it called for is told to stop. This cannot be undone.",
    "form_submit_text": "Cancel the run",
}


class AgainForm(BaseDialogForm):
    """From which step on it is done anew."""

    step = forms.ChoiceField(label="From the step", widget=UnfoldAdminSelectWidget)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        run = None
        with suppress(ValidationError):  # the address names what is no id
            run = PlanRun.objects.select_related("task__agent").filter(pk=self.object_id).first()
        if run is not None:
            plan = plan_at(run.task.agent.current_version_id or run.version_id)
            field = self.fields["step"]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [(key, plan.title_of(key)) for key in plan.definition.steps]
            field.initial = controls.first_to_do_again(run)


AGAIN = {
    "title": "Run it again?",
    "description": "A new run in its owner's name, of the plan as it is now. What does not need the step is kept.",
    "form_submit_text": "Run again",
    "form_class": AgainForm,
}


@admin.register(PlanRun)
class PlanRunAdmin(DrawnAdmin):
    """What it does is its task's; here is how far its steps are, and how it is held back or run again."""

    list_display = (
        "key",
        "shown_plan",
        "state",
        "owner",
        "version_",
        timed("created_at", "began"),
        timed("finished_at"),
    )
    list_filter = ("task__state",)
    search_fields = ("task__agent__slug", "task__agent__name", "task__owner__email")
    search_help_text = "Id of a run, its plan, or its owner's e-mail"
    date_hierarchy = "created_at"
    ordering = ("-created_at",)
    narrowings = {"task__agent__id__exact": ("plan", Agent)}
    fields = (
        "shown_plan",
        "state",
        "owner",
        "version_",
        "its_task",
        "continues_",
        "begun_at_step",
        *map(timed, ("created_at", "paused_at", "advanced_at", "finished_at")),
        structured("inputs"),
        "trace",
    )
    change_form_outer_before_template = "admin/plans/run.html"
    actions_detail = ("pause", "resume", "cancel", "again")

    def get_queryset(self, request: HttpRequest) -> QuerySet[PlanRun]:
        found: QuerySet[PlanRun] = super().get_queryset(request)
        return found.select_related("task__agent", "task__owner", "version").defer("version__content")

    def has_operate_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        return request.user.has_perm("plans.change_planrun")

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Only what can be done with it as it is."""
        offered: list[Any] = super().get_actions_detail(request, object_id)
        run = self.get_object(request, object_id)
        if run is None:
            return offered
        fits = {"again"} if run.task.is_finished else {"cancel", "resume" if run.paused_at else "pause"}
        return [one for one in offered if one.path in fits]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        progress, now, is_over = Progress.of(obj), timezone.now(), obj.task.is_finished
        titles = {key: progress.plan.title_of(key) for key in progress.plan.definition.steps}
        context |= {
            "graph": depicting.of_run(progress, now, address),
            "gantt": depicting.in_time(progress, now, address, is_over=is_over),
            "reasons": [] if is_over else reasons(progress)[:MOST_REASONS],
            "steps": steps_table(progress.steps, titles),
        }
        page: HttpResponse = super().render_change_form(request, context, *args, obj=obj, **kwargs)
        return page

    @action(description="Pause", permissions=["operate"], icon="pause", dialog=PAUSE, url_path="pause")
    def pause(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        return self._done(request, object_id, "Paused", controls.pause)

    @action(description="Resume", permissions=["operate"], icon="play_arrow", dialog=RESUME, url_path="resume")
    def resume(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        return self._done(request, object_id, "Resumed", controls.resume)

    @action(description="Cancel", permissions=["operate"], icon="stop_circle", dialog=CANCEL, url_path="cancel")
    def cancel(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        return self._done(request, object_id, "Canceled", _canceled)

    @action(description="Run again", permissions=["operate"], icon="replay", dialog=AGAIN, url_path="again")
    def again(self, request: HttpRequest, form: AgainForm, object_id: str) -> HttpResponse:
        if (run := self.get_object(request, object_id)) is not None:
            owner = run.task.owner.principal if run.task.owner else ANONYMOUS
            try:
                begun = controls.again(owner, run, form.cleaned_data["step"])
            except Refusal as refusal:
                messages.error(request, f"It was not run again. {refusal}")
            else:
                self.log_change(request, run, f"Run again as {begun.task}.")
                new = cells.link(begun.task, cells.page_url(Task, begun.task))
                messages.success(request, format_html("Running again as task {}.", new))
        return _back_to(object_id)

    def _done(self, request: HttpRequest, object_id: str, word: str, do: Any) -> HttpResponse:
        if (run := self.get_object(request, object_id)) is not None and do(run):
            self.log_change(request, run, f"{word}.")
            messages.success(request, f"{word}.")
        else:
            messages.warning(request, "Nothing was done: the run stands otherwise by now.")
        return _back_to(object_id)

    @display(description="id")
    def key(self, run: PlanRun) -> SafeString:
        return cells.row_id(PlanRun, run.pk)

    @display(description="plan", ordering="task__agent__name")
    def shown_plan(self, run: PlanRun) -> SafeString:
        return cells.link(run.task.agent.name, cells.page_url(Agent, run.task.agent_id))

    @display(description="state", ordering="task__state")
    def state(self, run: PlanRun) -> SafeString:
        shown: SafeString = columns.task_state(run.task)
        return format_html("{} (paused)", shown) if run.paused_at and not run.task.is_finished else shown

    @display(description="owner")
    def owner(self, run: PlanRun) -> SafeString:
        return columns.owner(run.task)

    @display(description="version")
    def version_(self, run: PlanRun) -> SafeString:
        return cells.link(run.version.number, cells.page_url(AgentVersion, run.version_id))

    @display(description="task")
    def its_task(self, run: PlanRun) -> SafeString:
        return cells.row_id(Task, run.pk)

    @display(description="goes on from")
    def continues_(self, run: PlanRun) -> SafeString:
        return cells.row_id(PlanRun, run.continues_id)

    @display(description="trace")
    def trace(self, run: PlanRun) -> SafeString:
        return cells.ident(run.traceparent)


def _canceled(run: PlanRun) -> bool:
    if TaskState(run.task.state).is_terminal:
        return False
    cancel_found(run.task)
    return True


def _back_to(object_id: str) -> HttpResponse:
    """The dialog is htmx's: it follows this header to the run's page, where the messages are."""
    return HttpResponse(headers={"HX-Redirect": cells.page_url(PlanRun, object_id)})
