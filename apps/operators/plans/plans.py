"""Operators' pages of plans: what each does, as a picture and as text, and a form that starts it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from unfold.decorators import action

from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion
from apps.features.sessions import switching
from apps.operators.plans.drawn import DrawnAdmin
from apps.operators.plans.start_form import StartForm
from apps.plans import checks, depicting, finding, starting
from apps.plans.definitions import as_yaml
from apps.plans.models import Plan, PlanRun
from apps.record.errors import Refusal
from apps.record.models import Task
from console import cells
from console.records import timed


@admin.register(Plan)
class PlanAdmin(DrawnAdmin):
    """Changing one is for its page in the browser; how it is used is on its page as an agent."""

    list_display = ("shown_name", "slug", "access", "shown_version", "steps", timed("updated_at"))
    list_filter = ("access", "is_enabled")
    search_fields = ("slug", "name", "description")
    search_help_text = "Name, or a word of the description"
    id_lookups = ()
    ordering = ("name",)
    fields = ("shown_name", "slug", "description", "access", "shown_version", "works", "as_agent", timed("updated_at"))
    change_form_outer_before_template = "admin/plans/plan.html"
    actions_detail = ("start", "change_it", "show_runs")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Plan]:
        found: QuerySet[Plan] = super().get_queryset(request)
        return finding.sized(found.filter(kind=Agent.Kind.PLAN).select_related("current_version"))

    def has_start_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        return request.user.has_perm("plans.add_planrun")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        definition = finding.definition_of(obj)
        context["graph"] = depicting.of_definition(definition) if definition else None
        context["yaml"] = as_yaml(obj.current_version.content) if obj.current_version else ""
        page: HttpResponse = super().render_change_form(request, context, *args, obj=obj, **kwargs)
        return page

    @action(description="Start", permissions=["start"], icon="play_arrow", url_path="start")
    def start(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """In the operator's own name: the run is theirs, and they are asked what it asks."""
        plan, user = self._found(request, object_id), request.user
        assert isinstance(user, User)
        definition = finding.definition_of(plan)
        if definition is None:
            messages.error(request, f"{plan.name} cannot be started: its definition cannot be read any more.")
            return redirect(cells.page_url(Plan, plan.pk))
        form = StartForm(definition, request.POST if request.method == "POST" else None)
        if form.is_valid() and (begun := self._begun(form, user, plan)):
            self.log_change(request, plan, f"Started as task {begun}.")
            messages.success(request, f"{plan.name} is started.")
            return redirect(cells.page_url(Task, begun))
        page = {**self.admin_site.each_context(request), "title": f"Start {plan.name}", "opts": self.opts}
        return TemplateResponse(request, "admin/plans/start.html", page | {"form": form, "plan": plan})

    def _begun(self, form: StartForm, user: User, plan: Plan) -> Any:
        """The task of the run; None where it was refused, which the form then says."""
        given, key = form.inputs, str(form.cleaned_data["key"])
        try:
            switching.check_open(user.principal, plan)
            return starting.start(user.principal, plan, given, key=key, text=form.cleaned_data["text"]).task
        except starting.Unfit as unfit:
            for path, sentence in unfit.problems:
                form.complain(path, sentence)
        except Refusal as refusal:
            form.add_error(None, str(refusal))
        return None

    @action(description="Change it", permissions=["view"], icon="edit", url_path="edit")
    def change_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("web:plan-edit", self._found(request, object_id).slug)

    @action(description="Runs", permissions=["view"], icon="account_tree", url_path="runs")
    def show_runs(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect(cells.list_url(PlanRun, task__agent__id__exact=self._found(request, object_id).pk))

    def _found(self, request: HttpRequest, object_id: str) -> Plan:
        if (plan := self.get_object(request, object_id)) is None:
            raise Http404
        return plan

    @display(description="name", ordering="name")
    def shown_name(self, plan: Plan) -> SafeString:
        return cells.link(plan.name, cells.page_url(Plan, plan.pk))

    @display(description="version")
    def shown_version(self, plan: Plan) -> SafeString:
        version = plan.current_version
        return cells.link(version.number, cells.page_url(AgentVersion, version.pk)) if version else cells.NOTHING

    @display(description="steps")
    def steps(self, plan: Plan) -> int:
        return plan.size  # type: ignore[attr-defined]

    @display(description="can be worked at")
    def works(self, plan: Plan) -> str:
        return checks.ailment_of(plan) or "yes"

    @display(description="as an agent")
    def as_agent(self, plan: Plan) -> SafeString:
        return cells.link(f"/a2a/{plan.slug}", cells.page_url(Agent, plan.pk))
