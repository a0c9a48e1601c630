"""Admin's page of legal holds: they are placed and lifted, not changed, so that the audit tells each."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from apps.conversations.sessions.models import LegalHold
from parley.faces.admin import LoggedAdmin, MenuItem, column, time_cell


@admin.register(LegalHold)
class LegalHoldAdmin(LoggedAdmin):
    """Deleting one lifts it."""

    menu = MenuItem("Record", 8, "gavel")
    placed = time_cell("created_at", "placed")
    list_display = (column("hold", str), "reason", placed)
    list_select_related = ("user", "workspace")
    search_fields = ("reason", "user__email", "workspace__name", "=context__id")
    ordering = ("-created_at",)
    fields = ("user", "workspace", "context", "reason")
    autocomplete_fields = ("user", "workspace")
    raw_id_fields = ("context",)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
