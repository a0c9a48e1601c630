"""Admin pages of examples and evaluations."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import Count, JSONField, OuterRef, Q, Subquery, TextField
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextareaWidget

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.rollouts.models import Rollout
from apps.operators.actions import ActingAdmin, admin_of
from apps.operators.bulk import RowAction
from apps.optional.evaluations import evaluating
from apps.optional.evaluations.models import Evaluation, Example, Result, Sampling
from apps.record.content import strict_json
from apps.record.errors import TaskNotFound
from apps.record.models import Feedback, Task
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, ReadOnlyAdmin, column, redirect_dialog, related_cell
from parley.faces.cells import Tone

ADD_EXAMPLE_DIALOG = {
    "title": "Add to the agent's examples?",
    "description": "The first message becomes an example. A comment becomes what a language model checks answers by.",
    "form_submit_text": "Add",
}
RESULT_TONES = {
    Result.State.WAITING: Tone.WORKING,
    Result.State.PASSED: Tone.DONE,
    Result.State.FAILED: Tone.FAILED,
}


class EvaluatingAdmin(ActingAdmin):
    """Rows that can be evaluated, whose button leads to the evaluation."""

    def page_after(self, action: RowAction, row: Any) -> HttpResponse:
        """Of an agent without examples: to the form of the first."""
        if not action.key.endswith(evaluating.EVALUATE.name):
            return super().page_after(action, row)
        agent = row if isinstance(row, Agent) else row.agent
        if newest := Evaluation.objects.filter(agent=agent, finished_at=None).first():
            return redirect_dialog(Evaluation, newest.pk)
        return HttpResponse(headers={"HX-Redirect": f"{reverse('admin:evaluations_example_add')}?agent={agent.pk}"})


AgentAdmin: Any = admin_of(Agent)
RolloutAdmin: Any = admin_of(Rollout)
FeedbackAdmin: Any = admin_of(Feedback)


@admin.register(Agent)
class EvaluatedAgentAdmin(AgentAdmin, EvaluatingAdmin):
    acts = (evaluating.EVALUATE,)


@admin.register(Rollout)
class EvaluatedRolloutAdmin(RolloutAdmin, ActingAdmin):
    acts = (evaluating.EVALUATE_BOTH,)


@admin.register(Sampling)
class SamplingAdmin(ConsoleAdmin):
    """What real answers are checked for. Who saves it sees to it: only their sessions are checked."""

    menu = MenuItem("Registry", 6, "colorize")
    fields = ("agent", "percent", "contains", "equals", "schema", "judged_by", "owner")
    readonly_fields = ("owner",)
    formfield_overrides = {
        JSONField: {"form_class": strict_json.FormField, "widget": UnfoldAdminTextareaWidget},
        TextField: {"widget": UnfoldAdminTextareaWidget({"rows": 3})},
    }
    list_display = (related_cell("agent", ordering="agent__name"), "percent", "passed", "owner")
    list_select_related = ("agent", "owner")
    search_fields = ("agent__slug", "agent__name")

    def get_queryset(self, request: HttpRequest) -> Any:
        checked = Count("samples", filter=~Q(samples__state=Result.State.WAITING))
        passed = Count("samples", filter=Q(samples__state=Result.State.PASSED))
        return super().get_queryset(request).annotate(checked=checked, well=passed)

    def save_model(self, request: HttpRequest, obj: Sampling, form: Any, change: bool) -> None:
        if "percent" in form.changed_data or not change:
            obj.owner, obj.chosen_until = cast("User", request.user), timezone.now()
        super().save_model(request, obj, form, change)

    @display(description="checked answers passed")
    def passed(self, row: Any) -> str:
        return f"{row.well:,} of {row.checked:,}"


@admin.register(Feedback)
class RatedAdmin(FeedbackAdmin):
    actions_detail = ("add_example",)

    def has_add_example_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        """An example shows the text of a message."""
        return request.user.has_perms(["evaluations.add_example", "record.view_message"])

    def is_offered(self, action: str, row: Feedback) -> bool:
        return super().is_offered(action, row) and (action != "add-example" or row.task_id is not None)

    @action(
        description="Add to examples",
        permissions=["add_example"],
        icon="quiz",
        dialog=ADD_EXAMPLE_DIALOG,
        url_path="add-example",
    )
    def add_example(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        """The rated message as an example of its agent; the comment becomes what a model judges by."""
        rated = self.get_or_404(request, object_id)
        if rated.task is None:
            raise Http404
        assert isinstance(request.user, User)
        try:
            example = evaluating.add_from_task(rated.task, request.user, rated.text)
        except TaskNotFound:
            messages.error(request, "The rated message has no text, or is gone.")
            return redirect_dialog(Feedback, object_id)
        return redirect_dialog(Example, example.pk)


@admin.register(Example)
class ExampleAdmin(EvaluatingAdmin):
    menu = MenuItem("Registry", 4, "quiz")
    resource = evaluating.EXAMPLES
    acts = evaluating.EXAMPLES.acts
    fields = ("agent", "text", "contains", "equals", "schema", "judged_by", "is_active")
    formfield_overrides = {
        JSONField: {"form_class": strict_json.FormField, "widget": UnfoldAdminTextareaWidget},
        TextField: {"widget": UnfoldAdminTextareaWidget({"rows": 3})},
    }
    list_display = (
        column("message", lambda row: cells.link(str(row), cells.page_url(Example, row.pk)), "text"),
        related_cell("agent", ordering="agent__name"),
        "expectations",
        "is_active",
        "last_result",
    )
    list_display_links = None
    list_filter = ("agent", "is_active")
    search_fields = ("text",)
    select_related = ("agent",)

    def get_queryset(self, request: HttpRequest) -> Any:
        newest = Result.objects.filter(example=OuterRef("pk")).order_by("-evaluation").values("state")[:1]
        return super().get_queryset(request).annotate(last_state=Subquery(newest))

    def save_model(self, request: HttpRequest, obj: Example, form: Any, change: bool) -> None:
        if not change:
            assert isinstance(request.user, User)
            obj.created_by = request.user
        super().save_model(request, obj, form, change)

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


@admin.register(Evaluation)
class EvaluationAdmin(EvaluatingAdmin, ReadOnlyAdmin):
    menu = MenuItem("Registry", 5, "fact_check")
    resource = evaluating.EVALUATIONS
    acts = evaluating.EVALUATIONS.acts
    list_display = (
        column("evaluation", lambda row: cells.link(str(row), cells.page_url(Evaluation, row.pk))),
        "result", "mean", "costs", "started_by", "started_at",
    )  # fmt: skip
    list_filter = ("agent",)
    search_fields = ("agent__slug", "agent__name")
    search_help_text = "An agent"
    select_related = ("agent", "version", "started_by")
    ordering = ("-id",)
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = (*list_display[1:], "finished_at")
    change_form_before_template = "admin/evaluations/results.html"

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
        return cells.money(row.cost)


def _shown_result(result: Result) -> dict[str, Any]:
    return {
        "state": cells.state(result.state, RESULT_TONES[Result.State(result.state)]),
        "problems": result.problems,
        "answer": result.answer,
        "took": cells.duration(result.seconds),
        "cost": "" if result.cost is None else cells.money(result.cost),
        "task": cells.row_link(Task, result.task) if result.task else "",
    }
