"""Admin's page of projects: whose they are, not what they say."""

from __future__ import annotations

from django.contrib import admin

from apps.operators.actions import ActingAdmin
from apps.optional.projects.models import Project
from apps.optional.projects.projects import DELETE, PROJECTS
from parley.faces.admin import MenuItem, ReadOnlyAdmin


@admin.register(Project)
class ProjectAdmin(ActingAdmin, ReadOnlyAdmin):
    """Without instructions and files: they are their people's."""

    menu = MenuItem("Record", 10, "folder")
    resource = PROJECTS
    acts = (DELETE,)
    list_display = ("name", "owner", "workspace", "is_shared", "updated_at")
    list_filter = ("is_shared",)
    search_fields = ("name", "owner__email", "workspace__name")
    ordering = ("-updated_at",)
    fields = ("name", "owner", "workspace", "is_shared", "agent", "created_at", "updated_at")
    select_related = ("owner", "workspace", "agent")
