"""Operators' pages of the registry: what an agent is, how it runs, and who may use it."""

from __future__ import annotations

from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from agentkit import HandlerError
from apps.agents.forms import AgentForm
from apps.agents.models import Agent
from apps.agents.registration import explain, register_hosted
from console import cells
from console.cells import Tone

HEALTH_TONES = {
    Agent.Health.OK: Tone.DONE,
    Agent.Health.DEGRADED: Tone.WAITING,
    Agent.Health.UNAVAILABLE: Tone.FAILED,
}


class AgentAdmin(ModelAdmin):
    """Registered by `apps.runtime.admin.agents`, which adds what is measured of an agent's work."""

    form = AgentForm
    list_display = ("name", "address", "state", "condition", "kind", "access", "version", "work", "updated")
    list_filter = ("kind", "health", "access", "is_enabled", "groups")
    search_fields = ("slug", "name", "description", "handler")
    ordering = ("name",)
    actions = ("read_handler_again", "switch_on", "switch_off")
    filter_horizontal = ("groups",)
    readonly_fields = ("address", "work", "created", "updated")
    add_fieldsets = (
        (None, {"fields": ("slug", "is_enabled", "kind", "handler", "workspace")}),
        (
            "On its card",
            {"fields": ("name", "version", "description", "input_modes", "output_modes", "skills", "capabilities")},
        ),
        ("On its extended card", {"fields": ("extended_card",)}),
        ("Who may use it", {"fields": ("access", "groups")}),
        ("What others ask about", {"fields": ("cost", "tools")}),
        (
            "How it runs",
            {"fields": ("on_busy", "time_limit", "attempts", "retry_safe", "keep_thoughts", "sign_artifacts")},
        ),
    )
    fieldsets = (*add_fieldsets, ("Record", {"fields": ("address", "work", "created", "updated")}))

    def has_register_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("agents.change_agent")

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
