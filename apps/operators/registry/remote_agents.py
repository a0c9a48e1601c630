"""Admin pages of remote agents: registration, cards, signatures, and changes to approve.

Registration has two steps: the agent's location, then its card and how to use it. Replacing a card takes the same
steps. Everything in a card is untrusted text.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from apps.accounts.models import User
from apps.agents.definitions import as_yaml
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import error_text
from apps.agents.versions import side_by_side
from apps.installation.models import allow_url
from apps.operators.access.credentials import credentials_url
from apps.operators.actions import ActingAdmin, list_action
from apps.operators.registry import agent_actions
from apps.operators.registry.agents import health_state
from apps.operators.registry.remote_health import HealthPanel
from apps.remote import registration
from apps.remote.authentication import credentials
from apps.remote.card_shapes import is_supported
from apps.remote.cards import card_origin
from apps.remote.errors import BadCard, RemoteError
from apps.remote.models import Checkup, RemoteAgent, SignatureStatus
from apps.remote.registration import Preview, RefreshOutcome, RefreshResult
from console import cells
from console.admin import LoggedAdmin, ReadOnlyAdmin, column, time_cell
from console.cells import Tone
from outbound import OutboundError, Private

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


LONGEST_CARD = 512 * 1024  # characters of a pasted card


class SourceForm(forms.Form):
    """The agent's location."""

    source = forms.CharField(
        label="URL",
        max_length=LONGEST_CARD,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2, "spellcheck": "false", "autofocus": True}),
        help_text="Of the agent or its card, such as https://agents.example.org/translator. Or paste the card.",
    )


class UseForm(SourceForm):
    """How to use the agent; `sha256` is the shown card's digest."""

    source = forms.CharField(max_length=LONGEST_CARD, widget=forms.HiddenInput)
    sha256 = forms.CharField(widget=forms.HiddenInput)
    slug = forms.CharField(
        label="Slug",
        max_length=63,
        widget=UnfoldAdminTextInputWidget,
        help_text="The end of its address here: /a2a/…",
    )
    access = forms.ChoiceField(
        label="Who may use it",
        choices=Agent.Access.choices,
        initial=Agent.Access.AUTHENTICATED,
        widget=UnfoldAdminSelectWidget,
        help_text="To allow groups, edit the agent afterwards.",
    )


class RegistrationWizard:
    """One request of the registration page.

    Attributes:
        agent: the registered agent, or None.
        context: for the template.
    """

    def __init__(self, request: HttpRequest, known: Agent | None = None) -> None:
        """`known`: an agent whose card is replaced."""
        self.agent: Agent | None = None
        self._known = known
        self.context: dict[str, Any] = {}
        if request.method != "POST":
            self._ask(SourceForm())
        elif not (form := SourceForm(request.POST)).is_valid():
            self._ask(form)
        elif shown := self._look(form):
            self._go_on(request, shown)

    def _ask(self, form: SourceForm) -> None:
        self.context = {"form": form, "go_on": "Continue"}

    def _look(self, form: SourceForm) -> Preview | None:
        source = form.cleaned_data["source"].strip()
        try:
            given = {"card": source} if source.startswith("{") else {"url": source}
            return asyncio.run(registration.preview(**given))
        except (RemoteError, OutboundError) as error:
            form.add_error("source", str(error))
            self._ask(form)
            self.context["offers"] = error.offers if isinstance(error, BadCard) else ()
            if isinstance(error, Private) and not source.startswith("{"):
                self.context["allow"] = allow_url(source)
            return None

    def _go_on(self, request: HttpRequest, shown: Preview) -> None:
        source = request.POST["source"]
        slug = self._known.slug if self._known else shown.slug
        fresh = self._form(initial={"source": source, "sha256": shown.sha256, "slug": slug})
        if "sha256" not in request.POST:
            return self._show(fresh, shown)
        form = self._form(request.POST)
        if form.is_valid():
            if form.cleaned_data["sha256"] != shown.sha256:
                self._show(fresh, shown)
                self.context["notes"].insert(0, "The card changed in the meantime. This is its current content.")
                return None
            self._save(form, shown, request.user)  # type: ignore[arg-type]
        if self.agent is None:
            self._show(form, shown)
        return None

    def _form(self, *args: Any, **options: Any) -> UseForm:
        form = UseForm(*args, **options)
        if self._known:
            del form.fields["slug"], form.fields["access"]
        return form

    def _save(self, form: UseForm, shown: Preview, author: User) -> None:
        values = form.cleaned_data
        try:
            if self._known:
                self.agent = registration.save(self._known.slug, shown, author=author, update=True)
            else:
                access = values["access"]
                # The installation's workspace has no members: an agent for one is in its author's.
                home = author.personal_workspace if access == Agent.Access.WORKSPACE else None
                self.agent = registration.save(values["slug"], shown, workspace=home, author=author, access=access)
        except ValidationError as error:
            for field, messages in error.message_dict.items():
                form.add_error(field if field in form.fields else None, messages)

    def _show(self, form: UseForm, shown: Preview) -> None:
        self.context = {
            "form": form,
            "go_on": "Register",
            "preview": shown,
            "facts": card_facts(shown.card, shown.signature.label, shown.sha256),
            "tables": card_tables(shown.card),
            "notes": list(shown.notes),
            "older": (older := self._known and self._known.current_version),
            "pairs": side_by_side(as_yaml(older.content), as_yaml(shown.content)) if older else [],
        }


REFRESH_MESSAGES = {
    RefreshOutcome.UNCHANGED: (messages.INFO, "{}'s card is unchanged."),
    RefreshOutcome.UPDATED: (messages.SUCCESS, "{} was updated from its card."),
    RefreshOutcome.WAITING: (messages.WARNING, "{}'s card changed. Review the change below and approve it."),
    RefreshOutcome.FAILED: (messages.ERROR, "{} was not changed. {}"),
}
OF_AGENT = "remote_remoteagent_of"


@admin.register(RemoteAgent)
class RemoteAgentAdmin(ActingAdmin, HealthPanel, ReadOnlyAdmin):
    """Only `history_messages` and `signs_requests` can be edited."""

    list_display = (
        column("name", lambda row: cells.link(row.agent.name, cells.page_url(RemoteAgent, row.pk)), "agent__name"),
        column("address", lambda row: _agent_link(row), "agent__slug"),
        column("health", lambda row: health_state(row.agent), "agent__health"),
        column("card", lambda row: card_state(row)),
        column("signature", lambda row: signature_state(row.signature), "signature"),
        "origin",
        time_cell("refreshed_at"),
    )
    list_display_links = None
    list_filter = ("signature", ("proposed", admin.EmptyFieldListFilter), "agent__health", "agent__is_enabled")
    select_related = ("agent",)
    search_fields = ("agent__slug", "agent__name", "card_url", "origin")
    search_help_text = "Agent's name, or a part of a URL"
    id_lookups = ()
    link_filters = {"agent__id__exact": ("agent", Agent)}
    ordering = ("agent__name",)
    actions = ("refresh_selected", "approve_selected")
    approve_selected = list_action(agent_actions.APPROVE, permission="change")
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
        acting = self.admin_site.admin_view(require_POST(self.act))
        return [
            path("of/<int:agent>/", self.admin_site.admin_view(self.of_agent), name=OF_AGENT),
            path("<int:pk>/act/", acting, name="remote_remoteagent_act"),
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
        return self._registering(request, RegistrationWizard(request), "Add a remote agent")

    def another_card(self, request: HttpRequest, pk: int) -> HttpResponse:
        remote = self.get_or_404(request, pk)
        if not self.has_change_permission(request, remote):
            raise PermissionDenied
        return self._registering(request, RegistrationWizard(request, remote.agent), f"Replace the card of {remote}")

    def _registering(self, request: HttpRequest, adding: RegistrationWizard, title: str) -> HttpResponse:
        if agent := adding.agent:
            self.log_change(request, agent.remote, f"Registered, version {agent.current_version.number}.", "")  # type: ignore[union-attr]
            messages.success(request, f"{agent.name} is registered at /a2a/{agent.slug}.")
            if credentials.missing(agent, None):
                messages.warning(request, f"{agent.name} requires a credential. Add it with the link below.")
            return redirect(cells.page_url(RemoteAgent, agent.remote.pk))
        page = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "again": request.path}
        return TemplateResponse(request, "admin/remote/add_remote_agent.html", page | adding.context)

    def page_context(self, request: HttpRequest, row: RemoteAgent) -> dict[str, Any]:
        may_decide = self.has_change_permission(request, row)
        context = super().page_context(request, row) | page_context(row)
        return context | {"may_decide": may_decide, "show_save": may_decide}

    def save_model(self, request: HttpRequest, obj: RemoteAgent, form: Any, change: bool) -> None:
        """Save only edited fields: a refresh may have changed the rest."""
        obj.save(update_fields=form.changed_data)

    def act(self, request: HttpRequest, pk: int) -> HttpResponse:
        remote = self.get_or_404(request, pk)
        if not self.has_change_permission(request, remote):
            raise PermissionDenied
        match request.POST.get("do"):
            case "refresh":
                self._tell(request, remote, registration.refresh_card(remote.agent))
            case "approve" | "decline" as decision:
                self._decide(request, remote, decision)
        return redirect(cells.page_url(RemoteAgent, pk))

    def _decide(self, request: HttpRequest, remote: RemoteAgent, decision: str) -> None:
        version = AgentVersion.objects.filter(agent=remote.agent, number=_number(request.POST.get("version"))).first()
        decide = registration.approve_card if decision == "approve" else registration.decline_card
        try:
            if version is None:
                raise ValidationError({"version": "Choose a version."})
            decide(remote.agent, request.user, version)  # type: ignore[arg-type]
        except ValidationError as error:
            messages.error(request, f"{remote} was not changed. {error_text(error)}")
            return
        word = "Approved" if decision == "approve" else "Declined"
        self.log_change(request, remote, f"{word} version {version.number}.", "")  # recorded already
        messages.success(request, f"{word} version {version.number} of {remote}.")

    @admin.action(description="Refresh the card", permissions=["change"])
    def refresh_selected(self, request: HttpRequest, remotes: QuerySet[RemoteAgent]) -> None:
        chosen = list(remotes.select_related("agent"))
        for remote, refreshed in zip(chosen, registration.refresh_cards(chosen), strict=True):
            self._tell(request, remote, refreshed)

    def _tell(self, request: HttpRequest, remote: RemoteAgent, refreshed: RefreshResult) -> None:
        level, sentence = REFRESH_MESSAGES[refreshed.outcome]
        self.log_change(request, remote, f"Refreshed the card: {refreshed.outcome}.")
        messages.add_message(request, level, sentence.format(remote, refreshed.reason))


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
        "pairs": side_by_side(as_yaml(version.content), as_yaml(proposed.content)) if version and proposed else [],
        "can_refresh": bool(remote.card_url),
    }


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else 0
