"""The audit book, and how long sessions of a workspace are kept."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import display
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.accounts.models import AuditLine, Workspace
from apps.features.sessions import retention
from apps.operators.accounts.workspaces import WorkspaceAdmin
from apps.record.models import Context
from console import cells
from console.records import ReadOnlyAdmin, structured, timed


@admin.register(AuditLine)
class AuditLineAdmin(ReadOnlyAdmin):
    list_display = ("at_", "actor", "act", "subject_")
    list_filter = ("act",)
    search_fields = ("=subject", "=actor")
    search_help_text = "Id of a session, or who did it"
    id_lookups = ("subject",)
    date_hierarchy = "at"
    ordering = ("-pk",)
    fields = (timed("at"), "actor", "act", "subject_", structured("counts"))

    @display(description="at", ordering="at")
    def at_(self, line: AuditLine) -> SafeString:
        return cells.moment(line.at)

    @display(description="session")
    def subject_(self, line: AuditLine) -> SafeString:
        return cells.ident(line.subject, cells.page_url(Context, line.subject))


@admin.register(Workspace)
class KeepingWorkspaceAdmin(WorkspaceAdmin):
    """With what the rules of retention would delete now: look here after changing one, before the next round."""

    list_display = (*WorkspaceAdmin.list_display, "retention_days", "cold_after_days", "overdue")
    fields = (*WorkspaceAdmin.fields, "retention_days", "cold_after_days", "overdue")
    readonly_fields = (*WorkspaceAdmin.readonly_fields, "overdue")

    def get_queryset(self, request: HttpRequest) -> Any:
        going = retention.overdue().order_by().filter(workspace=OuterRef("pk")).values("workspace")
        number = Coalesce(Subquery(going.annotate(number=Count("pk")).values("number")), 0)
        return super().get_queryset(request).annotate(overdue_count=number)

    @display(description="sessions to be deleted now", ordering="overdue_count")
    def overdue(self, workspace: Any) -> SafeString:
        return cells.number(workspace.overdue_count, Context, workspace__id__exact=workspace.pk)
