"""Operators' pages of the registry: what an agent is, how it runs, and who may use it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import action

from agentkit import HandlerError
from apps.agents import versions
from apps.agents.definition_form import DefinitionForm
from apps.agents.forms import STATED, AgentForm, RemoteAgentForm
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import explain, register_hosted
from apps.operators.agents.filters import ModeFilter, SkillFilter, TagFilter
from console import cells
from console.cells import Tone

HEALTH_TONES = {
    Agent.Health.OK: Tone.DONE,
    Agent.Health.DEGRADED: Tone.WAITING,
    Agent.Health.UNAVAILABLE: Tone.FAILED,
}

ACCESS = ("Who may use it", {"fields": ("access", "groups")})
ASKED_ABOUT = ("What others ask about", {"fields": ("cost", "tools")})
POLICIES = (
    "on_busy",
    "time_limit",
    "attempts",
    "retry_safe",
    "fallbacks",
    "keep_thoughts",
    "sign_artifacts",
    "retention_days",
)
RECORD = ("Record", {"fields": ("address", "current", "work", "created", "updated")})
WITHOUT_CODE = (
    (None, {"fields": ("name", "slug", "is_enabled", "description", "opened")}),
    (
        "What it does",
        {"fields": ("instructions", "model", "temperature", "max_tokens", "max_steps", "streaming")},
    ),
    ("What it may use", {"fields": ("tools", "agents", "mcp_servers")}),
    ("On its card", {"fields": ("skills", "input_modes")}),
    ACCESS,
    ("What others ask about", {"fields": ("cost",)}),
    ("How it runs", {"fields": (*POLICIES, "workspace"), "classes": ("collapse",)}),
    ("This version", {"fields": ("note",)}),
)


REMOTE = (
    (None, {"fields": ("slug", "is_enabled", "workspace")}),
    ("On its card, as it says itself", {"fields": STATED}),
    ACCESS,
    ASKED_ABOUT,
    ("How it runs", {"fields": POLICIES}),
    RECORD,
)


class AgentAdmin(ModelAdmin):
    """Registered by `apps.operators.engine.agents`, which adds what is measured of an agent's work."""

    form = AgentForm
    list_display = ("name", "address", "state", "condition", "kind", "access", "version", "work", "updated")
    list_filter = ("kind", "health", SkillFilter, TagFilter, ModeFilter, "access", "is_enabled", "groups")
    search_fields = ("slug", "name", "description", "handler")
    ordering = ("name",)
    actions = ("read_handler_again", "switch_on", "switch_off")
    filter_horizontal = ("groups",)
    actions_list = ("add_without_code", "add_remote")
    actions_detail = ("try_it", "show_plan", "show_card", "show_versions")
    readonly_fields = ("address", "current", "work", "created", "updated")
    add_fieldsets = (
        (None, {"fields": ("slug", "is_enabled", "kind", "handler", "workspace")}),
        (
            "On its card",
            {"fields": ("name", "version", "description", "input_modes", "output_modes", "skills", "capabilities")},
        ),
        ("On its extended card", {"fields": ("extended_card",)}),
        ACCESS,
        ASKED_ABOUT,
        ("How it runs", {"fields": POLICIES}),
    )
    fieldsets = (*add_fieldsets, RECORD)

    def get_fieldsets(self, request: HttpRequest, obj: Agent | None = None) -> Any:
        if obj and obj.kind == Agent.Kind.REMOTE:
            return REMOTE
        if not self._is_defined_here(request, obj):
            return super().get_fieldsets(request, obj)
        return (*WITHOUT_CODE, RECORD) if obj else WITHOUT_CODE

    def get_form(self, request: HttpRequest, obj: Agent | None = None, change: bool = False, **kwargs: Any) -> Any:
        if self._is_defined_here(request, obj):
            kwargs["form"] = DefinitionForm
        elif obj and obj.kind == Agent.Kind.REMOTE:
            kwargs["form"] = RemoteAgentForm
        return super().get_form(request, obj, change, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Agent | None = None) -> Any:
        """What a remote agent says of itself is not edited here."""
        stated = STATED if obj and obj.kind == Agent.Kind.REMOTE else ()
        return (*super().get_readonly_fields(request, obj), *stated)

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Only remote agents have a card that is looked after, only plans steps."""
        offered: list[Any] = super().get_actions_detail(request, object_id)
        agent = self.get_object(request, object_id)  # an id may be anything that is typed into an address
        of_kinds = {"card": Agent.Kind.REMOTE, "plan": Agent.Kind.PLAN}
        return [one for one in offered if one.path not in of_kinds or (agent and agent.kind == of_kinds[one.path])]

    def get_prepopulated_fields(self, request: HttpRequest, obj: Agent | None = None) -> dict[str, tuple[str, ...]]:
        return {"slug": ("name",)} if obj is None and self._is_defined_here(request, obj) else {}

    def _is_defined_here(self, request: HttpRequest, agent: Agent | None) -> bool:
        """Is this the form of an agent without code? Who may only look is shown what every agent has."""
        if agent is None:
            return request.GET.get("kind") == Agent.Kind.MODEL
        return agent.kind == Agent.Kind.MODEL and self.has_change_permission(request, agent)

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        if isinstance(form, DefinitionForm):
            form.keep(request.user)  # type: ignore[arg-type]
        else:
            super().save_model(request, obj, form, change)
            if obj.kind == Agent.Kind.REMOTE:
                return
            versions.keep(obj, versions.stated(obj), author=request.user)  # type: ignore[arg-type]

    def has_register_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("agents.change_agent")

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Versions go with their agent, though nobody deletes one by itself."""
        shown, counts, forbidden, protected = super().get_deleted_objects(objs, request)
        return shown, counts, forbidden - {AgentVersion._meta.verbose_name}, protected

    @action(description="Add an agent without code", permissions=["add"], icon="edit_note", url_path="without-code")
    def add_without_code(self, request: HttpRequest) -> HttpResponse:
        return redirect(f"{reverse('admin:agents_agent_add')}?kind={Agent.Kind.MODEL}")

    @action(description="Add a remote agent", permissions=["add"], icon="public", url_path="remote")
    def add_remote(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:remote_remoteagent_add")

    @action(description="Card", permissions=["view"], icon="badge", url_path="card")
    def show_card(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:remote_remoteagent_of", self._found(request, object_id).pk)

    @action(description="Steps", permissions=["view"], icon="account_tree", url_path="plan")
    def show_plan(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:plans_plan_change", self._found(request, object_id).pk)

    @action(description="Try it", permissions=["view"], icon="chat", url_path="try-it")
    def try_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("web:agent", self._found(request, object_id).slug)

    @action(description="Versions", permissions=["view"], icon="history", url_path="versions")
    def show_versions(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect(cells.list_url(AgentVersion, agent__id__exact=self._found(request, object_id).pk))

    def _found(self, request: HttpRequest, object_id: str) -> Agent:
        if (agent := self.get_object(request, object_id)) is None:
            raise Http404
        return agent

    @admin.action(description="Read again what the handler says", permissions=["register"])
    def read_handler_again(self, request: HttpRequest, agents: QuerySet[Agent]) -> None:
        for agent in agents.filter(kind=Agent.Kind.HOSTED):
            try:
                known = register_hosted(agent.slug, agent.handler)
            except HandlerError as error:
                messages.error(request, f"{agent.name} stays as it was. {error}")
            except ValidationError as error:
                messages.error(request, f"{agent.name} stays as it was. {explain(error)}")
            else:
                self.log_change(request, known, "Read again what the handler says.")
                messages.success(request, f"{known.name} is now what its handler says.")

    @admin.action(description="Switch on", permissions=["register"])
    def switch_on(self, request: HttpRequest, agents: QuerySet[Agent]) -> None:
        self._switch(request, agents, on=True)

    @admin.action(description="Switch off", permissions=["register"])
    def switch_off(self, request: HttpRequest, agents: QuerySet[Agent]) -> None:
        self._switch(request, agents, on=False)

    def _switch(self, request: HttpRequest, agents: QuerySet[Agent], *, on: bool) -> None:
        word = "on" if on else "off"
        for agent in agents.exclude(is_enabled=on):
            agent.is_enabled = on
            agent.save(update_fields=["is_enabled", "updated_at"])
            self.log_change(request, agent, f"Switched {word}.")
            messages.success(request, f"{agent.name} is switched {word}.")

    @display(description="address", ordering="slug")
    def address(self, agent: Agent) -> SafeString:
        return format_html("<code>/a2a/{}</code>", agent.slug) if agent.slug else cells.NOTHING

    @display(description="state", ordering="is_enabled")
    def state(self, agent: Agent) -> SafeString:
        return cells.state("on", Tone.DONE) if agent.is_enabled else cells.state("off", Tone.STOPPED)

    @display(description="health", ordering="health")
    def condition(self, agent: Agent) -> SafeString:
        told = cells.state(agent.health, HEALTH_TONES[Agent.Health(agent.health)])
        return format_html('<span title="{}">{}</span>', agent.ailment, told) if agent.ailment else told

    @display(description="version")
    def current(self, agent: Agent) -> SafeString:
        version = agent.current_version
        return cells.link(version.number, cells.page_url(AgentVersion, version.pk)) if version else cells.NOTHING

    @display(description="work")
    def work(self, agent: Agent) -> SafeString:
        """Links without numbers: counting all the tasks of an agent would read them all."""
        kinds = (agent.tasks.model, agent.contexts.model) if agent.pk else ()
        shown = [
            cells.link(kind._meta.verbose_name_plural, cells.list_url(kind, agent__id__exact=agent.pk))
            for kind in kinds
        ]
        return SafeString(" · ".join(shown))

    @display(description="created", ordering="created_at")
    def created(self, agent: Agent) -> SafeString:
        return cells.moment(agent.created_at)

    @display(description="updated", ordering="updated_at")
    def updated(self, agent: Agent) -> SafeString:
        return cells.moment(agent.updated_at)
