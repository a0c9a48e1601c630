"""What operators see of comparisons: who compared what, and the choice. The answers are their owners'."""

from __future__ import annotations

from django.contrib import admin

from apps.operators.actions import ActingAdmin
from apps.optional.comparing.comparing import COMPARISONS, DELETE
from apps.optional.comparing.models import Comparison
from parley.faces.admin import MenuItem, ReadOnlyAdmin


@admin.register(Comparison)
class ComparisonAdmin(ActingAdmin, ReadOnlyAdmin):
    menu = MenuItem("Record", 13, "compare")
    resource = COMPARISONS
    acts = (DELETE,)
    list_display = ("id", "owner", "workspace", "blind", "choice", "chosen_at", "created_at")
    list_filter = ("choice", "blind")
    search_fields = ("owner__email",)
    ordering = ("-created_at",)
    fields = list_display
    select_related = ("owner", "workspace")
