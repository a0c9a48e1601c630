"""Admin pages of credentials. They never show secrets."""

from __future__ import annotations

import asyncio
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import PermissionDenied, ValidationError
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
from apps.credentials import oauth
from apps.credentials.models import Credential, CredentialRequest
from apps.credentials.requests import RequestStatus, request_status
from apps.operators import columns
from apps.operators.actions import ActingAdmin
from apps.record.models import Task
from apps.remote.authentication import credential_forms, credentials
from apps.remote.authentication.credential_forms import FormProblems
from apps.remote.models import RemoteCredential
from apps.remote.probes import check_access
from parley.faces import cells
from parley.faces.admin import MenuItem, ReadOnlyAdmin, column, time_cell
from parley.faces.cells import Tone

REQUEST_TONES = {
    RequestStatus.OPEN: Tone.WAITING,
    RequestStatus.EXPIRED: Tone.QUEUED,
    RequestStatus.GIVEN: Tone.DONE,
    RequestStatus.DECLINED: Tone.FAILED,
    RequestStatus.VOID: Tone.STOPPED,
}


@admin.register(Credential)
class CredentialAdmin(ActingAdmin, ReadOnlyAdmin):
    """Revoking a credential erases it."""

    menu = MenuItem("Credentials", 1, "password")
    resource, acts = oauth.CREDENTIALS_OF_PEOPLE, (oauth.REVOKE,)
    list_display = ("service", "agent", "whose", "auth_type", "given_by", "given_at", "last_used_at", "use")
    list_filter = ("auth_type", "oauth_service", ("revoked_at", admin.EmptyFieldListFilter))
    search_fields = ("service", "agent__slug", "user__email")
    search_help_text = "Id of a task, a service, an agent or a person"
    id_lookups = ("task_id",)
    ordering = ("-given_at",)
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = (
        "service", "agent", "whose", "auth_type", "oauth_service", "given_by", "given_at", "last_used_at", "expires_at",
        "lapsed_at", "revoked_at",
    )  # fmt: skip

    select_related = ("agent", "user", "given_by", "oauth_service")
    deferred = ("secret", "username", "refresh_token", "oauth_service__client_secret")

    @display(description="for")
    def whose(self, credential: Credential) -> object:
        return credential.user or cells.row_link(Task, credential.task_id)

    @display(description="state")
    def use(self, credential: Credential) -> SafeString:
        if credential.revoked_at is not None:
            return cells.state("revoked", Tone.STOPPED)
        if credential.lapsed_at is not None:
            return cells.state("needs connecting again", Tone.WAITING)
        return cells.state("usable", Tone.DONE)


@admin.register(CredentialRequest)
class CredentialRequestAdmin(ReadOnlyAdmin):
    menu = MenuItem("Credentials", 2, "contact_support", "Requests")
    list_display = ("service", "state", columns.task, "auth_type", time_cell("created_at", "asked"), "expires_at")
    list_filter = ("answer", "auth_type")
    search_fields = ("service",)
    search_help_text = "Id of a task, or a service"
    id_lookups = ("pk", "task_id")
    ordering = ("-created_at",)
    link_filters = {"task__id__exact": ("task", Task)}
    fields = (
        "service", "state", columns.task, "auth_type", "created_at", "expires_at", "answered_at", "answered_by",
    )  # fmt: skip

    select_related = ("task", "answered_by")
    deferred = ("digest",)

    @display(description="state")
    def state(self, asked: CredentialRequest) -> SafeString:
        stands = request_status(asked)
        return cells.state(stands.value, REQUEST_TONES[stands])


CREDENTIALS_OF_AGENT = "remote_remotecredential_of"


def credentials_url(agent: Agent) -> str:
    return reverse(f"admin:{CREDENTIALS_OF_AGENT}", args=[agent.pk])


@admin.register(RemoteCredential)
class RemoteCredentialAdmin(ActingAdmin, ReadOnlyAdmin):
    """A list, and a page for each agent."""

    menu = MenuItem("Credentials", 4, "passkey", "For remote agents")
    resource, acts = credentials.REMOTE_CREDENTIALS, (credentials.ERASE,)
    agent = column("agent", lambda row: cells.link(row.agent, credentials_url(row.agent)), "agent__name")
    list_display = ("scheme", agent, "whose", "kind", "state", "given_by", "updated_at", "last_used_at")
    list_filter = ("kind", "is_personal")
    search_fields = ("scheme", "agent__slug", "user__email")
    search_help_text = "A scheme, an agent or a person"
    id_lookups = ()
    ordering = ("agent__name", "scheme")
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = (
        "scheme", agent, "whose", "kind", "state", "origin", "issuer", "given_by", "updated_at", "last_used_at",
        "expires_at",
    )  # fmt: skip

    select_related = ("agent", "user", "given_by")
    deferred = ("secret", "token")

    def get_urls(self) -> list[Any]:
        of_agent = path("of/<int:agent>/", self.admin_site.admin_view(self.of_agent), name=CREDENTIALS_OF_AGENT)
        return [of_agent, *super().get_urls()]

    @method_decorator((never_cache, sensitive_post_parameters()))
    def of_agent(self, request: HttpRequest, agent: int) -> HttpResponse:
        """Write-only forms of an agent's credentials."""
        if not self.has_operate_permission(request):
            raise PermissionDenied
        remote = Agent.objects.filter(pk=agent, kind=Agent.Kind.REMOTE).select_related("current_version").first()
        if remote is None:
            raise Http404
        if request.method != "POST":
            return self._render(request, remote)
        if problems := self._handle_form(request, remote):
            return self._render(request, remote, problems)
        return redirect(credentials_url(remote))

    def _handle_form(self, request: HttpRequest, agent: Agent) -> FormProblems | None:
        by, scheme = request.user, request.POST.get("scheme", "")
        assert isinstance(by, User)
        match request.POST.get("do"):
            case "give":
                if problems := credential_forms.save_form(agent, None, request.POST, by):
                    return problems
                self._log(request, agent, f"Gave a credential for {scheme}.")
            case "remove" if credentials.erase(agent, None, scheme, by):
                self._log(request, agent, f"Removed the credential for {scheme}.")
            case "personal" | "common" as which:
                return self._set_personal(request, agent, scheme, which == "personal", by)
            case "try":
                probe = asyncio.run(check_access(agent))
                (messages.success if probe.is_allowed else messages.error)(request, probe.sentence)
        return None

    def _set_personal(
        self, request: HttpRequest, agent: Agent, scheme: str, own: bool, by: User
    ) -> FormProblems | None:
        try:
            credentials.set_personal(agent, scheme, own, by)
        except ValidationError as error:
            return FormProblems(scheme, None, {"": " ".join(error.messages)})
        self._log(
            request, agent, f"Each person brings their own {scheme}." if own else f"One {scheme} serves everybody."
        )
        return None

    def _log(self, request: HttpRequest, agent: Agent, what: str) -> None:
        self.log_change(request, agent, what, "")  # recorded already
        messages.success(request, what)

    def _render(self, request: HttpRequest, agent: Agent, problems: FormProblems | None = None) -> HttpResponse:
        about = {
            **self.admin_site.each_context(request),
            "title": f"Credentials for {agent}",
            "opts": self.opts,
            "agent": agent,
            "sheet": credential_forms.forms_for(agent, None, problems),
            "personal": cells.list_url(RemoteCredential, agent__id__exact=agent.pk),
        }
        return TemplateResponse(request, "admin/remote/credentials.html", about, status=422 if problems else 200)

    @display(description="for")
    def whose(self, row: RemoteCredential) -> object:
        return row.user or "everybody"

    @display(description="state")
    def state(self, row: RemoteCredential) -> SafeString:
        if row.is_personal:
            return cells.state("each person's own", Tone.WAITING)
        return cells.state("given", Tone.DONE) if row.kind else cells.state("wanted", Tone.QUEUED)
