"""Operators' pages of the registry: what an agent is, how it runs, and who may use it."""

from __future__ import annotations

from console import cells
from console.cells import Tone
from django.contrib import admin
from django.contrib.admin import display
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from apps.accounts.models import Workspace
from apps.agents.forms import AgentForm
from apps.agents.models import Agent


@admin.register(Agent)
class AgentAdmin(ModelAdmin):
    form = AgentForm
    list_display = ("name", "address", "state", "kind", "access", "version", "workspace_", "updated")
    list_filter = ("kind", "access", "is_enabled", "groups")
    list_select_related = ("workspace",)
    search_fields = ("slug", "name", "description", "handler")
    ordering = ("name",)
    actions = ("enable", "disable")
    filter_horizontal = ("groups",)
    readonly_fields = ("address", "created", "updated")
    fieldsets = (
        (None, {"fields": (("slug", "is_enabled"), ("kind", "handler"), "workspace")}),
        (
            "On its card",
            {"fields": (("name", "version"), "description", ("input_modes", "output_modes"), "skills", "capabilities")},
        ),
        ("Who may use it", {"fields": ("access", "groups")}),
        ("How it runs", {"fields": ("on_busy", ("time_limit", "attempts"), ("retry_safe", "keep_thoughts"))}),
        ("Record", {"fields": (("address", "created", "updated"),)}),
    )
