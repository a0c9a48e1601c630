"""Admin pages of remote agents: registration, cards, signatures, and changes to approve.

Registration has two steps: the agent's location, then its card and how to use it. Replacing a card takes the same
steps. Everything in a card is untrusted text.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, ClassVar, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from apps.accounts.models import User
from apps.agents.admin.agents import health_state
from apps.agents.definitions import as_yaml
from apps.agents.models import NATURES, Agent, AgentVersion
from apps.agents.pages import adding as adding_agents
from apps.agents.pages.adding import EXACT
from apps.agents.pages.agents import ACCESS_CHOICES
from apps.agents.versions import DiffRow, side_by_side
from apps.credentials.admin.credentials import credentials_url
from apps.operators.actions import ActingAdmin
from apps.operators.bulk import ACTIONS
from apps.remote.admin.health import HealthPanel
from apps.remote.agent_cards.card_shapes import is_supported
from apps.remote.agent_cards.cards import card_origin
from apps.remote.authentication import credentials
from apps.remote.models import Checkup, RemoteAgent, SignatureStatus
from apps.remote.registration import APPROVE, DECLINE, REMOTE_AGENTS
from parley.db.sql import write_transaction
from parley.faces import cells
from parley.faces.admin import LoggedAdmin, MenuItem, ReadOnlyAdmin, column, time_cell
from parley.faces.cells import Tone

JSON = dict[str, Any]

SIGNATURE_TONES = {
    SignatureStatus.VERIFIED: Tone.DONE,
    SignatureStatus.UNSIGNED: Tone.STOPPED,
    SignatureStatus.UNVERIFIED: Tone.FAILED,
}


def signature_state(label: str) -> Any:
    known = SignatureStatus(label)
    return cells.state(known.label, SIGNATURE_TONES[known])


def card_facts(card: JSON, label: str, sha256: str) -> list[tuple[str, Any]]:
    able = card["capabilities"]
    provider = card.get("provider") or {}
    can = [word for name, word in (("streaming", "streams"), ("pushNotifications", "webhooks")) if able.get(name)]
    return [
        ("name", card["name"]),
        ("description", card["description"]),
        ("version", card["version"]),
        ("by", provider.get("organization") or cells.NOTHING),
        ("called at", card_origin(card)),
        ("signature", signature_state(label)),
        ("supports", ", ".join(can) or cells.NOTHING),
        ("requires", ", ".join(card.get("securitySchemes") or {}) or "no credentials"),
        ("accepts", ", ".join(card["defaultInputModes"]) or cells.NOTHING),
        ("produces", ", ".join(card["defaultOutputModes"]) or cells.NOTHING),
        ("SHA-256", cells.identifier(sha256)),
    ]


def card_tables(card: JSON) -> list[JSON]:
    interfaces = [
        (
            f"interface-{place}",
            (one["protocolBinding"], one["protocolVersion"], one["url"], "yes" if is_supported(one) else "no"),
        )
        for place, one in enumerate(card["supportedInterfaces"])
    ]
    skills = [
        (f"skill-{place}", (one["id"], one["name"], cells.shortened(one["description"]), ", ".join(one["tags"])))
        for place, one in enumerate(card["skills"])
    ]
    return [
        {"title": "Interfaces", "headings": ("binding", "version", "URL", "supported by Parley"), "rows": interfaces},
        {"title": "Skills", "headings": ("id", "name", "description", "tags"), "rows": skills},
    ]


class OperatorsForm(adding_agents.RemoteAgentForm):
    """Of who may add remote agents in admin."""

    access_choices = {**ACCESS_CHOICES, Agent.Access.GROUPS: "Members of groups: choose them afterwards"}
    usual_access = Agent.Access.AUTHENTICATED
    widgets = {
        "url": partial(UnfoldAdminTextInputWidget, attrs=EXACT),
        "card": partial(UnfoldAdminTextareaWidget, attrs={**EXACT, "rows": 2}),
        "allow": UnfoldAdminCheckboxSelectMultipleWidget,
        "slug": partial(UnfoldAdminTextInputWidget, attrs=EXACT),
        "minutes": UnfoldAdminDecimalFieldWidget,
        "access": UnfoldAdminSelectWidget,
    }

    def may_share(self) -> bool:
        return True


OF_AGENT = "remote_remoteagent_of"


@admin.register(RemoteAgent)
class RemoteAgentAdmin(ActingAdmin, HealthPanel, ReadOnlyAdmin):
    """Only `history_messages` and `signs_requests` can be edited."""

    menu = MenuItem("Remote agents", 1, "public")
    resource = REMOTE_AGENTS
    acts = REMOTE_AGENTS.acts
    list_display = (
        column("name", lambda row: cells.link(row.agent.name, cells.page_url(RemoteAgent, row.pk)), "agent__name"),
        column("address", lambda row: _agent_link(row), "agent__slug"),
        column("health", lambda row: health_state(row.agent), "agent__health"),
        column("card", lambda row: card_state(row)),
        column("signature", lambda row: signature_state(row.signature), "signature"),
        column("origin", lambda row: NATURES[row.agent.nature] if row.agent.folder else row.origin, "origin"),
        time_cell("refreshed_at"),
    )
    list_display_links = None
    list_filter = ("signature", ("proposed", admin.EmptyFieldListFilter), "agent__health", "agent__is_enabled")
    select_related = ("agent__current_version", "proposed")
    search_fields = ("agent__slug", "agent__name", "card_url", "origin")
    search_help_text = "Agent's name, or a part of a URL"
    id_lookups = ()
    link_filters = {"agent__id__exact": ("agent", Agent)}
    ordering = ("agent__name",)
    readonly_fields: ClassVar[Any] = (
        column("agent", lambda row: _agent_link(row)),
        "card_url",
        column("credentials", lambda row: _credentials_link(row.agent)),
        column(
            "versions",
            lambda row: cells.link("all versions", cells.list_url(AgentVersion, agent__id__exact=row.agent_id)),
        ),
        column(
            "health",
            lambda row: cells.link("checks, uptime and calls", cells.list_url(Checkup, agent__id__exact=row.agent_id)),
        ),
        "registered_by",
    )
    fields = (*readonly_fields[:-1], "history_messages", "signs_requests", readonly_fields[-1])
    change_form_outer_after_template = "admin/remote/remote_agent.html"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return LoggedAdmin.has_add_permission(self, request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return LoggedAdmin.has_change_permission(self, request, obj)

    def get_urls(self) -> list[Any]:
        deciding = self.admin_site.admin_view(require_POST(self.decide))
        return [
            path("of/<int:agent>/", self.admin_site.admin_view(self.of_agent), name=OF_AGENT),
            path("<int:pk>/decide/", deciding, name="remote_remoteagent_decide"),
            path("<int:pk>/card/", self.admin_site.admin_view(self.another_card), name="remote_remoteagent_card"),
            *super().get_urls(),
        ]

    def of_agent(self, request: HttpRequest, agent: int) -> HttpResponse:
        """Redirects from an agent's page."""
        if (pk := Agent.objects.filter(pk=agent).values_list("remote", flat=True).first()) is None:
            raise Http404
        return redirect(cells.page_url(RemoteAgent, pk))

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return self._adding(request, "Add a remote agent")

    def another_card(self, request: HttpRequest, pk: int) -> HttpResponse:
        remote = self.get_or_404(request, pk)
        if not self.has_change_permission(request, remote):
            raise PermissionDenied
        return self._adding(request, f"Replace the card of {remote}", remote.agent)

    def _adding(self, request: HttpRequest, title: str, known: Agent | None = None) -> HttpResponse:
        operator = cast("User", request.user)
        form = OperatorsForm(operator, request.POST if request.method == "POST" else None, known)
        if form.says_where:
            asyncio.run(form.look())
            # The installation's workspace has no members: an agent for one is in its author's.
            is_own = form.cleaned_data.get("access") == Agent.Access.WORKSPACE
            if agent := form.register(request, operator.personal_workspace if is_own else None):
                return self._added(request, agent)
        about = {"title": title, "opts": self.opts, "form": form.to_show(), "offers": form.offers}
        if shown := form.preview:
            older = known.current_version if known else None
            about |= {"preview": shown, "facts": card_facts(shown.card, shown.signature.label, shown.sha256)}
            about |= {"tables": card_tables(shown.card), "notes": [*form.errors.get("digest", ()), *shown.notes]}
            about |= {"older": older, "pairs": _changes(older, shown.content)}
        page = {**self.admin_site.each_context(request), **about}
        return TemplateResponse(request, "admin/remote/add_remote_agent.html", page)

    def _added(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        self.log_change(request, agent.remote, f"Registered, version {agent.current_version.number}.", "")  # type: ignore[union-attr]
        messages.success(request, f"{agent.name} is registered at /a2a/{agent.slug}.")
        if credentials.missing(agent, None):
            messages.warning(request, f"{agent.name} requires a credential. Add it with the link below.")
        return redirect(cells.page_url(RemoteAgent, agent.remote.pk))

    def page_context(self, request: HttpRequest, row: RemoteAgent) -> dict[str, Any]:
        may_decide = self.has_change_permission(request, row)
        context = super().page_context(request, row) | page_context(row)
        return context | {"may_decide": may_decide, "show_save": may_decide}

    def save_model(self, request: HttpRequest, obj: RemoteAgent, form: Any, change: bool) -> None:
        """Save only edited fields: a refresh may have changed the rest."""
        obj.save(update_fields=form.changed_data)

    def is_offered(self, action: str, row: RemoteAgent) -> bool:
        """A change is approved below, where it is shown."""
        return action not in (APPROVE.name, DECLINE.name) and super().is_offered(action, row)

    def decide(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Approve or decline the version that the page showed, and no other."""
        remote = self.get_or_404(request, pk)
        decision = request.POST.get("do")
        action = ACTIONS[f"remote.{decision}"] if decision in (APPROVE.name, DECLINE.name) else None
        with write_transaction():
            Agent.objects.select_for_update().only("pk").get(pk=remote.agent_id)
            remote.refresh_from_db()
            if action is None or str(remote.proposed and remote.proposed.number) != request.POST.get("version"):
                messages.error(request, f"{remote} was not changed. Look at what waits now.")
            else:
                self.act_on_row(request, action, pk)
        return redirect(cells.page_url(RemoteAgent, pk))


def _changes(older: AgentVersion | None, newer: JSON) -> list[DiffRow]:
    return side_by_side(as_yaml(older.content), as_yaml(newer)) if older else []


def _agent_link(remote: RemoteAgent) -> SafeString:
    return cells.link(f"/a2a/{remote.agent.slug}", cells.page_url(Agent, remote.agent_id))


def _credentials_link(agent: Agent) -> SafeString:
    lack = credentials.missing(agent, None)
    words = "credentials" if lack is None else "one per person" if lack.is_personal else "missing: add them"
    return cells.link(words, credentials_url(agent))


def card_state(remote: RemoteAgent) -> SafeString:
    """Current, waiting for a decision, or failed to load."""
    if remote.has_proposal:
        return cells.state("needs approval", Tone.WAITING)
    if remote.card_error:
        return cells.state("not loaded", Tone.FAILED)
    return cells.state("current" if remote.card_url else "pasted", Tone.DONE)


def page_context(remote: RemoteAgent) -> dict[str, Any]:
    """Shown below the form."""
    version, proposed = remote.agent.current_version, remote.proposed
    facts: list[tuple[str, Any]] = [
        ("card", card_state(remote)),
        ("last refresh", cells.relative_time(remote.refreshed_at)),
        ("next refresh", cells.relative_time(remote.refresh_at) if remote.card_url else cells.NOTHING),
        ("trusted keys", cells.lines(key.get("kid", "unnamed") for key in remote.pinned_keys)),
    ]
    if remote.spoken_version:
        facts.append(("answers in", f"A2A {remote.spoken_version}, though its card says another version"))
    return {
        "facts": (card_facts(remote.card, remote.signature, version.sha256) if version else []) + facts,
        "tables": card_tables(remote.card) if version else [],
        "text": as_yaml(version.content) if version else "",
        "card_error": remote.card_error,
        "notes": remote.card_notes,
        "proposed": proposed,
        "older": version,
        "pairs": _changes(version, proposed.content) if proposed else [],
    }
