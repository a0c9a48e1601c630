"""Guardrails of all workspaces, and those that operators declare for the whole installation."""

from __future__ import annotations

from django.contrib import admin

from apps.optional.guardrails.forms import FIELDS, RailFields
from apps.optional.guardrails.models import Guardrail, RailDecision
from parley.faces.admin import LoggedAdmin, MenuItem, ReadOnlyAdmin


class AdminForm(RailFields):
    class Meta:
        model = Guardrail
        fields = FIELDS


@admin.register(Guardrail)
class GuardrailAdmin(LoggedAdmin):
    """What is made here holds for the whole installation."""

    menu = MenuItem("Record", 14, "shield")
    form = AdminForm
    list_display = ("name", "workspace", "direction", "check_kind", "action", "only_watch", "is_on", "order")
    list_filter = ("check_kind", "action", "is_on", "only_watch")
    list_select_related = ("workspace",)
    search_fields = ("name", "workspace__name", "owner__email")
    readonly_fields = ("workspace", "owner", "created_at", "updated_at")
    fields = ("workspace", *FIELDS, "owner", "created_at", "updated_at")
    ordering = ("order", "created_at")


@admin.register(RailDecision)
class RailDecisionAdmin(ReadOnlyAdmin):
    """The newest first. The log of the session has them as events."""

    menu = MenuItem("Record", 15, "rule")
    list_display = ("rail", "done", "direction", "count", "ms", "at")
    list_filter = ("done", "direction")
    list_select_related = ("rail",)
    search_fields = ("rail__name",)
    ordering = ("-at",)
    fields = (*list_display, "context", "task")
