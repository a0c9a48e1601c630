"""Operators' pages of remote agents: their cards, who signed them, and what of them waits for a decision."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from unfold.admin import ModelAdmin

from apps.agents.definitions import as_yaml
from apps.agents.differences import side_by_side
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import explain
from apps.operators.agents import AgentAdmin
from apps.operators.remote.adding import Adding
from apps.operators.remote.cards import facts_of, signature_of, tables_of
from apps.operators.remote.credentials import sheet_of
from apps.operators.remote.health import HealthPanel
from apps.remote import approving, credentials, refreshing
from apps.remote.models import Checkup, RemoteAgent
from apps.remote.refreshing import Outcome, Refreshed
from console import cells
from console.cells import Tone
from console.records import ReadOnlyAdmin, timed

TOLD = {
    Outcome.UNCHANGED: (messages.INFO, "{}'s card is unchanged."),
    Outcome.UPDATED: (messages.SUCCESS, "{} is now what its card says."),
    Outcome.WAITING: (messages.WARNING, "{}'s card changed in a way that waits for your approval."),
    Outcome.FAILED: (messages.ERROR, "{} stays as it was. {}"),
}
OF_AGENT = "remote_remoteagent_of"


@admin.register(RemoteAgent)
class RemoteAgentAdmin(HealthPanel, ReadOnlyAdmin):
    """The list, a page for each, and the page that registers one. Of all that only `history_messages` is edited."""

    list_display = ("shown_name", "address", "condition", "card", "signed", "origin", timed("refreshed_at"))
    list_display_links = None
    list_filter = ("signature", ("proposed", admin.EmptyFieldListFilter), "agent__health", "agent__is_enabled")
    list_select_related = ("agent",)
    search_fields = ("agent__slug", "agent__name", "card_url", "origin")
    search_help_text = "Agent's name, or a part of a URL"
    id_lookups = ()
    narrowings = {"agent__id__exact": ("agent", Agent)}
    ordering = ("agent__name",)
    actions = ("refresh_selected",)
    fields = (
        "shown_agent",
        "card_url",
        "lets_in",
        "shown_versions",
        "shown_health",
        "history_messages",
        "registered_by",
    )
    readonly_fields = ("shown_agent", "card_url", "lets_in", "shown_versions", "shown_health", "registered_by")
    change_form_outer_after_template = "admin/remote/remote_agent.html"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return ModelAdmin.has_add_permission(self, request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return ModelAdmin.has_change_permission(self, request, obj)

    def get_urls(self) -> list[Any]:
        acting = self.admin_site.admin_view(require_POST(self.act))
        return [
            path("of/<int:agent>/", self.admin_site.admin_view(self.of_agent), name=OF_AGENT),
            path("<int:pk>/act/", acting, name="remote_remoteagent_act"),
            path("<int:pk>/card/", self.admin_site.admin_view(self.another_card), name="remote_remoteagent_card"),
            *super().get_urls(),
        ]

    def of_agent(self, request: HttpRequest, agent: int) -> HttpResponse:
        """From an agent's own page to this one of it."""
        if (pk := Agent.objects.filter(pk=agent).values_list("remote", flat=True).first()) is None:
            raise Http404
        return redirect(cells.page_url(RemoteAgent, pk))

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return self._registering(request, Adding(request), "Add a remote agent")

    def another_card(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Another card for an agent: where it is, or the card itself; an operator has looked at it then."""
        remote = self.get_object(request, str(pk))
        if remote is None:
            raise Http404
        if not self.has_change_permission(request, remote):
            raise PermissionDenied
        return self._registering(request, Adding(request, remote.agent), f"Another card for {remote}")

    def _registering(self, request: HttpRequest, adding: Adding, title: str) -> HttpResponse:
        if agent := adding.agent:
            self.log_change(request, agent.remote, f"Registered, version {agent.current_version.number}.")  # type: ignore[union-attr]
            messages.success(request, f"{agent.name} is registered at /a2a/{agent.slug}.")
            if credentials.missing(agent, None):
                messages.warning(
                    request, f"{agent.name} wants a credential before it works. Give it by its link below."
                )
            return redirect(cells.page_url(RemoteAgent, agent.remote.pk))
        page = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "again": request.path}
        return TemplateResponse(request, "admin/remote/add_remote_agent.html", page | adding.context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        may_decide = self.has_change_permission(request, obj)
        context |= page_of(obj) | {"may_decide": may_decide, "show_save": may_decide}
        shown: HttpResponse = super().render_change_form(request, context, *args, obj=obj, **kwargs)
        return shown

    def save_model(self, request: HttpRequest, obj: RemoteAgent, form: Any, change: bool) -> None:
        """What was edited and nothing else: a refresh may have changed the rest since it was read."""
        obj.save(update_fields=form.changed_data)

    def act(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Refresh, approve or decline, as the button says that was pressed."""
        remote = self.get_object(request, str(pk))
        if remote is None:
            raise Http404
        if not self.has_change_permission(request, remote):
            raise PermissionDenied
        match request.POST.get("do"):
            case "refresh":
                self._tell(request, remote, refreshing.refresh(remote.agent))
            case "approve" | "decline" as decision:
                self._decide(request, remote, decision)
        return redirect(cells.page_url(RemoteAgent, pk))

    def _decide(self, request: HttpRequest, remote: RemoteAgent, decision: str) -> None:
        version = AgentVersion.objects.filter(agent=remote.agent, number=_number(request.POST.get("version"))).first()
        decide = approving.approve if decision == "approve" else approving.decline
        try:
            if version is None:
                raise ValidationError({"version": "Say which version."})
            decide(remote.agent, request.user, version)  # type: ignore[arg-type]
        except ValidationError as error:
            messages.error(request, f"{remote} stays as it is. {explain(error)}")
            return
        word = "Approved" if decision == "approve" else "Declined"
        self.log_change(request, remote, f"{word} version {version.number}.")
        messages.success(request, f"{word} version {version.number} of {remote}.")

    @admin.action(description="Look at the card again", permissions=["change"])
    def refresh_selected(self, request: HttpRequest, remotes: QuerySet[RemoteAgent]) -> None:
        chosen = list(remotes.select_related("agent"))
        for remote, refreshed in zip(chosen, refreshing.refresh_all(chosen), strict=True):
            self._tell(request, remote, refreshed)

    def _tell(self, request: HttpRequest, remote: RemoteAgent, refreshed: Refreshed) -> None:
        level, sentence = TOLD[refreshed.outcome]
        self.log_change(request, remote, f"Looked at the card again: {refreshed.outcome}.")
        messages.add_message(request, level, sentence.format(remote, refreshed.reason))

    @display(description="name", ordering="agent__name")
    def shown_name(self, remote: RemoteAgent) -> SafeString:
        return cells.link(remote.agent.name, cells.page_url(RemoteAgent, remote.pk))

    @display(description="agent")
    def shown_agent(self, remote: RemoteAgent) -> SafeString:
        return cells.link(f"/a2a/{remote.agent.slug}", cells.page_url(Agent, remote.agent_id))

    @display(description="address", ordering="agent__slug")
    def address(self, remote: RemoteAgent) -> SafeString:
        return cells.link(f"/a2a/{remote.agent.slug}", cells.page_url(Agent, remote.agent_id))

    @display(description="health", ordering="agent__health")
    def condition(self, remote: RemoteAgent) -> SafeString:
        return AgentAdmin.condition(self, remote.agent)

    @display(description="card")
    def card(self, remote: RemoteAgent) -> SafeString:
        return card_state(remote)

    @display(description="signature", ordering="signature")
    def signed(self, remote: RemoteAgent) -> SafeString:
        return signature_of(remote.signature)

    @display(description="credentials")
    def lets_in(self, remote: RemoteAgent) -> SafeString:
        lack = credentials.missing(remote.agent, None)
        if lack is None:
            return cells.link("what lets Parley in", sheet_of(remote.agent))
        return cells.link("each person's own" if lack.is_personal else "wanted: give them", sheet_of(remote.agent))

    @display(description="health")
    def shown_health(self, remote: RemoteAgent) -> SafeString:
        return cells.link("checks, uptime and calls", cells.list_url(Checkup, agent__id__exact=remote.agent_id))

    @display(description="versions")
    def shown_versions(self, remote: RemoteAgent) -> SafeString:
        return cells.link("all of them", cells.list_url(AgentVersion, agent__id__exact=remote.agent_id))


def card_state(remote: RemoteAgent) -> SafeString:
    """Whether the card is current, waits for a decision, or could not be loaded."""
    if remote.waits:
        return cells.state("waits for approval", Tone.WAITING)
    if remote.card_error:
        return cells.state("not loaded", Tone.FAILED)
    return cells.state("current" if remote.card_url else "pasted", Tone.DONE)


def page_of(remote: RemoteAgent) -> dict[str, Any]:
    """What the page shows below its form: the card, what waits, and how the last look at it went."""
    version, proposed = remote.agent.current_version, remote.proposed
    facts: list[tuple[str, Any]] = [
        ("card", card_state(remote)),
        ("looked at", cells.moment(remote.refreshed_at)),
        ("next look", cells.moment(remote.refresh_at) if remote.card_url else cells.NOTHING),
        ("trusted keys", cells.lines(key.get("kid", "without a name") for key in remote.pinned_keys)),
    ]
    return {
        "facts": (facts_of(remote.card, remote.signature, version.sha256) if version else []) + facts,
        "tables": tables_of(remote.card) if version else [],
        "text": as_yaml(version.content) if version else "",
        "card_error": remote.card_error,
        "proposed": proposed,
        "older": version,
        "pairs": side_by_side(as_yaml(version.content), as_yaml(proposed.content)) if version and proposed else [],
        "can_refresh": bool(remote.card_url),
    }


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else 0
