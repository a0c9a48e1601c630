"""Operators' pages of what lets Parley in at remote agents: set, replaced and removed, never shown."""

from __future__ import annotations

import asyncio
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.remote import credential_forms, credentials
from apps.remote.credential_forms import Problems
from apps.remote.knocking import knock
from apps.remote.models import RemoteCredential
from console import cells
from console.cells import Tone
from console.records import ReadOnlyAdmin, timed

OF_AGENT = "remote_remotecredential_of"


def sheet_of(agent: Agent) -> str:
    """Where operators set the credentials of a remote agent."""
    return reverse(f"admin:{OF_AGENT}", args=[agent.pk])


@admin.register(RemoteCredential)
class RemoteCredentialAdmin(ReadOnlyAdmin):
    """The list of all, and a page for each agent. The secrets are not even read."""

    list_display = (
        "scheme_",
        "agent_",
        "whose",
        "kind",
        "state",
        "given_by",
        timed("updated_at"),
        timed("last_used_at"),
    )
    list_filter = ("kind", "is_personal")
    search_fields = ("scheme", "agent__slug", "user__email")
    search_help_text = "A scheme, an agent or a person"
    id_lookups = ()
    ordering = ("agent__name", "scheme")
    narrowings = {"agent__id__exact": ("agent", Agent)}
    actions = ("erase_selected",)
    fields = (
        "scheme", "agent_", "whose", "kind", "state", "origin", "issuer", "given_by",
        *map(timed, ("updated_at", "last_used_at", "expires_at")),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[RemoteCredential]:
        found: QuerySet[RemoteCredential] = super().get_queryset(request)
        return found.select_related("agent", "user", "given_by").defer("secret", "token")

    def get_urls(self) -> list[Any]:
        of_agent = path("of/<int:agent>/", self.admin_site.admin_view(self.of_agent), name=OF_AGENT)
        return [of_agent, *super().get_urls()]

    def has_operate_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        return request.user.has_perm("remote.change_remotecredential")

    @method_decorator((never_cache, sensitive_post_parameters()))
    def of_agent(self, request: HttpRequest, agent: int) -> HttpResponse:
        """What an agent's card asks for, with a form for each: write-only."""
        if not self.has_operate_permission(request):
            raise PermissionDenied
        remote = Agent.objects.filter(pk=agent, kind=Agent.Kind.REMOTE).select_related("current_version").first()
        if remote is None:
            raise Http404
        if request.method != "POST":
            return self._shown(request, remote)
        if problems := self._heard(request, remote):
            return self._shown(request, remote, problems)
        return redirect(sheet_of(remote))

    def _heard(self, request: HttpRequest, agent: Agent) -> Problems | None:
        by, scheme = request.user, request.POST.get("scheme", "")
        assert isinstance(by, User)
        match request.POST.get("do"):
            case "give":
                if problems := credential_forms.give(agent, None, request.POST, by):
                    return problems
                self._note(request, agent, f"Gave a credential for {scheme}.")
            case "remove" if credentials.forget(agent, None, scheme, by):
                self._note(request, agent, f"Removed the credential for {scheme}.")
            case "personal" | "common" as which:
                return self._brought(request, agent, scheme, which == "personal", by)
            case "try":
                knocked = asyncio.run(knock(agent))
                (messages.success if knocked.is_in else messages.error)(request, knocked.sentence)
        return None

    def _brought(self, request: HttpRequest, agent: Agent, scheme: str, own: bool, by: User) -> Problems | None:
        try:
            credentials.bring_own(agent, scheme, own, by)
        except ValidationError as error:
            return Problems(scheme, None, {"": " ".join(error.messages)})
        self._note(
            request, agent, f"Each person brings their own {scheme}." if own else f"One {scheme} serves everybody."
        )
        return None

    def _note(self, request: HttpRequest, agent: Agent, what: str) -> None:
        self.log_change(request, agent, what)
        messages.success(request, what)

    def _shown(self, request: HttpRequest, agent: Agent, problems: Problems | None = None) -> HttpResponse:
        about = {
            **self.admin_site.each_context(request),
            "title": f"Credentials for {agent}",
            "opts": self.opts,
            "agent": agent,
            "sheet": credential_forms.sheet(agent, None, problems),
            "personal": cells.list_url(RemoteCredential, agent__id__exact=agent.pk),
        }
        return TemplateResponse(request, "admin/remote/credentials.html", about, status=422 if problems else 200)

    @admin.action(description="Erase", permissions=["operate"])
    def erase_selected(self, request: HttpRequest, rows: QuerySet[RemoteCredential]) -> None:
        by = request.user
        assert isinstance(by, User)
        erased = [row for row in rows if credentials.forget(row.agent, row.user, row.scheme, by)]
        for row in erased:
            self.log_change(
                request, row.agent, f"Removed the credential of {row.user or 'everybody'} for {row.scheme}."
            )
        messages.success(request, f"{len(erased)} erased.")

    @display(description="scheme", ordering="scheme")
    def scheme_(self, row: RemoteCredential) -> SafeString:
        return cells.link(row.scheme, cells.page_url(RemoteCredential, row.pk))

    @display(description="agent", ordering="agent__name")
    def agent_(self, row: RemoteCredential) -> SafeString:
        return cells.link(row.agent, sheet_of(row.agent))

    @display(description="of")
    def whose(self, row: RemoteCredential) -> object:
        return row.user or "everybody"

    @display(description="state")
    def state(self, row: RemoteCredential) -> SafeString:
        if row.is_personal:
            return cells.state("each person's own", Tone.WAITING)
        return cells.state("given", Tone.DONE) if row.kind else cells.state("wanted", Tone.QUEUED)
