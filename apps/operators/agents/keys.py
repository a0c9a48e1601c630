"""Signing keys: whose they are and how far they are trusted. The private part is never shown."""

from __future__ import annotations

from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.agents import signing_keys
from apps.agents.models import Agent, SigningKey
from console import cells
from console.cells import Tone
from console.records import ReadOnlyAdmin, structured, timed

TIMES = (timed("created_at"), timed("retired_at"), timed("revoked_at"))


@admin.register(SigningKey)
class SigningKeyAdmin(ReadOnlyAdmin):
    list_display = ("key", "owner", "state", "algorithm", *TIMES)
    list_filter = ("algorithm", ("revoked_at", admin.EmptyFieldListFilter), ("retired_at", admin.EmptyFieldListFilter))
    search_fields = ("=kid", "agent__slug", "agent__name")
    search_help_text = "Id of a key, agent's name"
    list_select_related = ("agent",)
    ordering = ("-created_at", "-pk")
    actions = ("rotate", "revoke")
    narrowings = {"agent__id__exact": ("agent", Agent)}
    fields = ("key", "owner", "state", "algorithm", *TIMES, structured("public"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[SigningKey]:
        """Without the private part: a page that shows keys must open even where none can be decrypted."""
        return super().get_queryset(request).defer("private")

    def has_rotate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("agents.change_signingkey")

    @admin.action(description="Rotate: sign with a new key", permissions=["rotate"])
    def rotate(self, request: HttpRequest, keys: QuerySet[SigningKey]) -> None:
        for key in keys.current():  # type: ignore[attr-defined]
            new = signing_keys.rotate(key.agent, key.algorithm)
            self.log_change(request, new, f"Follows {key.kid}.")
            messages.success(request, f"{new.owner_name} signs with a new key. The old one is still trusted.")

    @admin.action(description="Revoke: trust nothing that it signed", permissions=["rotate"])
    def revoke(self, request: HttpRequest, keys: QuerySet[SigningKey]) -> None:
        for key in keys.trusted():  # type: ignore[attr-defined]
            signing_keys.revoke(key)
            self.log_change(request, key, "Revoked.")
            messages.success(request, f"Nothing that the key {key.kid[:8]}… of {key.owner_name} signed is trusted.")

    @display(description="key id", ordering="kid")
    def key(self, key: SigningKey) -> SafeString:
        return cells.ident(key.kid, cells.page_url(SigningKey, key.pk))

    @display(description="signs for", ordering="agent__name")
    def owner(self, key: SigningKey) -> SafeString | str:
        return cells.link(key.agent.name, cells.page_url(Agent, key.agent_id)) if key.agent else "the platform"

    @display(description="state")
    def state(self, key: SigningKey) -> SafeString:
        if key.revoked_at:
            return cells.state("revoked", Tone.FAILED)
        return cells.state("retired", Tone.STOPPED) if key.retired_at else cells.state("signs", Tone.DONE)
