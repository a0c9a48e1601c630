"""What operators see of prompts: who shares what, and how it is used. Private texts are their owners'."""

from __future__ import annotations

from django.contrib import admin

from apps.operators.actions import ActingAdmin
from apps.optional.prompts.library import DELETE, PROMPTS
from apps.optional.prompts.models import Prompt
from parley.faces.admin import MenuItem, ReadOnlyAdmin


@admin.register(Prompt)
class PromptAdmin(ActingAdmin, ReadOnlyAdmin):
    menu = MenuItem("Record", 12, "text_snippet")
    resource = PROMPTS
    acts = (DELETE,)
    list_display = ("name", "slug", "owner", "workspace", "is_shared", "used", "updated_at")
    list_filter = ("is_shared",)
    search_fields = ("name", "slug", "owner__email")
    ordering = ("-created_at",)
    fields = (*list_display, "description", "tags", "created_at")
    select_related = ("owner", "workspace")
