"""Admin pages of examples and evaluations."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextareaWidget

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.features.evaluations import evaluating
from apps.features.evaluations.models import Evaluation, Example, Result
from apps.record.content import strict_json
from apps.record.models import Task
from console import cells
from console.admin import ConsoleAdmin, ReadOnlyAdmin, column, related_cell, time_cell
from console.cells import Tone

RESULT_TONES = {
    Result.State.WAITING: Tone.WORKING,
    Result.State.PASSED: Tone.DONE,
    Result.State.FAILED: Tone.FAILED,
}


DIALOG = {
    "title": "Evaluate the agent?",
    "description": "It gets its active examples as messages from you. That may cost what its language models cost.",
    "form_submit_text": "Evaluate",
}


def _optional_json(field: Any) -> forms.Field:
    return strict_json.FormField(required=False, help_text=field.help_text, widget=UnfoldAdminTextareaWidget)


class ExampleForm(forms.ModelForm):  # type: ignore[type-arg]
    equals, schema = (_optional_json(Example._meta.get_field(name)) for name in ("equals", "schema"))

    class Meta:
        model = Example
        fields = ("agent", "text", "contains", "equals", "schema", "judged_by", "is_active")
        widgets = {name: UnfoldAdminTextareaWidget(attrs={"rows": 3}) for name in ("text", "contains", "judged_by")}


@admin.register(Example)
class ExampleAdmin(ConsoleAdmin):
    form = ExampleForm
    message = column("message", lambda row: cells.link(str(row), cells.page_url(Example, row.pk)), "text")
    agent_ = related_cell("agent", ordering="agent__name")
    list_display = (message, agent_, "expectations", "is_active", "last_result")
    list_display_links = None
    list_filter = ("agent", "is_active")
    search_fields = ("text",)
    select_related = ("agent",)
    operate_permission = "evaluations.add_evaluation"
    actions = ("evaluate",)

    def get_queryset(self, request: HttpRequest) -> Any:
        newest = Result.objects.filter(example=OuterRef("pk")).order_by("-evaluation").values("state")[:1]
        return super().get_queryset(request).annotate(last_state=Subquery(newest))

    def save_model(self, request: HttpRequest, obj: Example, form: Any, change: bool) -> None:
        if not change:
            assert isinstance(request.user, User)
            obj.created_by = request.user
        super().save_model(request, obj, form, change)

    @admin.action(description="Evaluate their agents", permissions=["operate"])
    def evaluate(self, request: HttpRequest, examples: Any) -> HttpResponse | None:
        """Of each agent all active examples: results of parts could not be compared."""
        agents = list(Agent.objects.filter(examples__in=examples).distinct())
        made = [one for agent in agents if (one := start(request, agent)) is not None]
        return redirect(cells.page_url(Evaluation, made[0].pk)) if len(made) == 1 else None

    @display(description="expects")
    def expectations(self, row: Example) -> str:
        said = [
            *(["words"] if row.lines else []),
            *(["JSON"] if row.equals is not None else []),
            *(["a schema"] if row.schema is not None else []),
            *(["a judge"] if row.judged_by.strip() else []),
        ]
        return ", ".join(said) or "that it completes"

    @display(description="last result")
    def last_result(self, row: Example) -> SafeString:
        state = row.last_state  # type: ignore[attr-defined]
        return cells.state(state, RESULT_TONES[Result.State(state)]) if state else cells.NOTHING


def start(request: HttpRequest, agent: Agent) -> Evaluation | None:
    """Start an evaluation, with a message about it."""
    assert isinstance(request.user, User)
    try:
        made = evaluating.start(agent, request.user)
    except evaluating.NothingToEvaluate as nothing:
        messages.error(request, str(nothing))
        return None
    messages.success(request, f"{agent} is being evaluated.")
    return made


def start_and_show(request: HttpRequest, agent: Agent) -> HttpResponse:
    """For a dialog: the evaluation's page; without examples, the page for the first."""
    made = start(request, agent)
    url = (
        cells.page_url(Evaluation, made.pk) if made else f"{reverse('admin:evaluations_example_add')}?agent={agent.pk}"
    )
    return HttpResponse(headers={"HX-Redirect": url})


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    shown = column("evaluation", lambda row: cells.link(str(row), cells.page_url(Evaluation, row.pk)))
    list_display = (shown, "result", "mean", "costs", related_cell("started_by"), time_cell("started_at"))
    list_filter = ("agent",)
    search_fields = ("agent__slug", "agent__name")
    search_help_text = "An agent"
    select_related = ("agent", "version", "started_by")
    ordering = ("-id",)
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = ("result", "mean", "costs", related_cell("started_by"), time_cell("started_at"), time_cell("finished_at"))
    change_form_before_template = "admin/evaluations/results.html"
    operate_permission = "evaluations.add_evaluation"
    actions_detail = ("repeat",)

    def page_context(self, request: HttpRequest, row: Evaluation) -> dict[str, Any]:
        previous = row.previous
        return {
            "evaluation": row,
            "previous": previous,
            "is_under_way": row.finished_at is None,
            "rows": [
                {
                    "example": cells.link(str(example), cells.page_url(Example, example.pk)),
                    "now": _shown_result(result),
                    "before": _shown_result(before) if before else None,
                    "differs": before is not None and before.state != result.state,
                }
                for example, result, before in evaluating.comparison(row)
            ],
        }

    @action(description="Evaluate again", permissions=["operate"], icon="replay", dialog=DIALOG, url_path="repeat")
    def repeat(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        return start_and_show(request, self.get_or_404(request, object_id).agent)

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).with_totals()

    @display(description="passed")
    def result(self, row: Any) -> SafeString:
        tone = Tone.WORKING if row.finished_at is None else Tone.FAILED if row.failed else Tone.DONE
        return cells.state(f"{row.passed} of {row.all}", tone)

    @display(description="mean time")
    def mean(self, row: Any) -> str:
        return cells.duration(row.seconds)

    @display(description="cost")
    def costs(self, row: Any) -> str:
        return "–" if row.cost is None else f"{row.cost:.4g}"


def _shown_result(result: Result) -> dict[str, Any]:
    return {
        "state": cells.state(result.state, RESULT_TONES[Result.State(result.state)]),
        "problems": result.problems,
        "answer": result.answer,
        "took": cells.duration(result.seconds),
        "cost": "" if result.cost is None else f"{result.cost:.4g}",
        "task": cells.row_link(Task, result.task) if result.task else "",
    }
