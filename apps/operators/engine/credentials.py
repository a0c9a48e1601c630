"""Operators' pages of credentials: whose they are and whether they are used, never what they are."""

from __future__ import annotations

from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.agents.models import Agent
from apps.features.credentials.models import Credential, CredentialRequest
from apps.features.credentials.requests import Standing, standing
from apps.operators.record import columns
from apps.record.models import Task
from console import cells
from console.cells import Tone
from console.records import ReadOnlyAdmin, timed

TONES = {
    Standing.OPEN: Tone.WAITING,
    Standing.EXPIRED: Tone.QUEUED,
    Standing.GIVEN: Tone.DONE,
    Standing.DECLINED: Tone.FAILED,
    Standing.VOID: Tone.STOPPED,
}


@admin.register(Credential)
class CredentialAdmin(ReadOnlyAdmin):
    """The secrets are not even read. Revoking one erases it."""

    list_display = (
        "service_",
        "agent",
        "whose",
        "auth_type",
        "given_by",
        timed("given_at"),
        timed("last_used_at"),
        "use",
    )
    list_filter = ("auth_type", ("revoked_at", admin.EmptyFieldListFilter))
    search_fields = ("service", "agent__slug", "user__email")
    search_help_text = "Id of a task, a service, an agent or a person"
    id_lookups = ("task_id",)
    ordering = ("-given_at",)
    narrowings = {"agent__id__exact": ("agent", Agent)}
    actions = ("revoke_selected",)
    fields = (
        "service", "agent", "whose", "auth_type", "given_by", *map(timed, ("given_at", "last_used_at", "revoked_at"))
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Credential]:
        found = super().get_queryset(request).select_related("agent", "user", "given_by")
        return found.defer("secret", "username")

    def has_operate_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        return request.user.has_perm("credentials.change_credential")

    @admin.action(description="Revoke", permissions=["operate"])
    def revoke_selected(self, request: HttpRequest, credentials: QuerySet[Credential]) -> None:
        usable = [one for one in credentials if one.revoked_at is None]
        for one in usable:
            one.revoke()
            self.log_change(request, one, "Revoked.")
        messages.success(request, f"{len(usable)} revoked. Their agents ask anew when they need them.")

    @display(description="service", ordering="service")
    def service_(self, credential: Credential) -> SafeString:
        return cells.link(credential.service, cells.page_url(Credential, credential.pk))

    @display(description="of")
    def whose(self, credential: Credential) -> object:
        return credential.user or cells.row_id(Task, credential.task_id)

    @display(description="state")
    def use(self, credential: Credential) -> SafeString:
        revoked = credential.revoked_at is not None
        return cells.state("revoked" if revoked else "usable", Tone.STOPPED if revoked else Tone.DONE)


@admin.register(CredentialRequest)
class CredentialRequestAdmin(ReadOnlyAdmin):
    list_display = ("service_", "state", columns.task, "auth_type", timed("created_at", "asked"), timed("expires_at"))
    list_filter = ("answer", "auth_type")
    search_fields = ("service",)
    search_help_text = "Id of a task, or a service"
    id_lookups = ("pk", "task_id")
    ordering = ("-created_at",)
    narrowings = {"task__id__exact": ("task", Task)}
    fields = (
        "service", "state", columns.task, "auth_type", *map(timed, ("created_at", "expires_at", "answered_at")),
        "answered_by",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[CredentialRequest]:
        return super().get_queryset(request).select_related("task", "answered_by").defer("digest")

    @display(description="service", ordering="service")
    def service_(self, asked: CredentialRequest) -> SafeString:
        return cells.link(asked.service, cells.page_url(CredentialRequest, asked.pk))

    @display(description="state")
    def state(self, asked: CredentialRequest) -> SafeString:
        stands = standing(asked)
        return cells.state(stands.value, TONES[stands])
