"""Workspaces: what agents, contexts and keys belong to."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import display
from django.db.models import Model
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from apps.accounts.models import ApiKey, User, Workspace
from console import cells


class WorkspaceAdmin(ModelAdmin):
    """Personal workspaces come and go with their people; further ones can be made.

    Registered by `apps.operators.record.audit`, which adds how long sessions are kept.
    """

    list_display: tuple[str, ...] = ("name", "person", "created")
    list_select_related = ("personal_of",)
    search_fields = ("name", "personal_of__email")
    ordering = ("name",)
    fields: tuple[str, ...] = ("name", "person", "keys", "created")
    readonly_fields: tuple[str, ...] = ("person", "keys", "created")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    @display(description="personal workspace of", ordering="personal_of__email")
    def person(self, workspace: Workspace) -> SafeString:
        person: Any = workspace.personal_of
        return cells.link(person, cells.page_url(User, person.pk)) if person else cells.NOTHING

    @display(description="API keys")
    def keys(self, workspace: Workspace) -> SafeString:
        return cells.number(workspace.api_keys.count(), ApiKey, workspace__id__exact=workspace.pk)

    @display(description="created", ordering="created_at")
    def created(self, workspace: Workspace) -> SafeString:
        return cells.moment(workspace.created_at)
