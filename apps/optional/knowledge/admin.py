"""Admin's page of collections: whose they are and how large, not what is in them."""

from __future__ import annotations

from django.contrib import admin

from apps.operators.actions import ActingAdmin
from apps.optional.knowledge.collections import COLLECTIONS, DELETE
from apps.optional.knowledge.models import Collection
from parley.faces.admin import MenuItem, ReadOnlyAdmin


@admin.register(Collection)
class CollectionAdmin(ActingAdmin, ReadOnlyAdmin):
    """Without files, pages and passages: they are their people's."""

    menu = MenuItem("Record", 11, "library_books")
    resource = COLLECTIONS
    acts = (DELETE,)
    list_display = ("name", "owner", "workspace", "is_shared", "updated_at")
    list_filter = ("is_shared", "has_project_files")
    search_fields = ("name", "owner__email", "workspace__name")
    ordering = ("-updated_at",)
    fields = ("name", "owner", "workspace", "is_shared", "has_project_files", "created_at", "updated_at")
    select_related = ("owner", "workspace")
