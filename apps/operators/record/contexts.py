"""Contexts and what was said in them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.accounts.models import User, Workspace
from apps.agents.models import Agent
from apps.features.archive import due
from apps.features.archive.archiving import StaysWarm
from apps.operators.record import columns
from apps.operators.record.live import LiveAdmin
from apps.record.cold import restored
from apps.record.models import Context, Message, Task
from console import cells
from console.records import structured


@admin.register(Context)
class ContextAdmin(LiveAdmin):
    list_display = (
        columns.title,
        columns.agent,
        columns.owner,
        "tasks",
        columns.events_of_context,
        columns.updated,
        "cold",
    )
    list_filter = ("agent", ("deleted_at", admin.EmptyFieldListFilter), ("cold_at", admin.EmptyFieldListFilter))
    actions = ("move_into_cold_storage", "bring_back")
    search_fields = ("=context_id", "title", "owner__email")
    search_help_text = "Id, title or owner's e-mail"
    id_lookups = ("pk", "context_id", "parent_task")
    date_hierarchy = "created_at"
    ordering = ("-updated_at",)
    select_related = ("agent", "owner", "workspace", "parent")
    narrowings = {
        "owner__id__exact": ("owner", User),
        "workspace__id__exact": ("workspace", Workspace),
        "agent__id__exact": ("agent", Agent),
        "parent__id__exact": ("forks of", Context),
    }
    fields = (
        "key",
        "a2a_id",
        "title",
        columns.created,
        "archived",
        "cold",
        "cleared",
        "tasks",
        "messages",
        "works_for",
        "parent",
        "forked_at",
        "fork_reason",
        "workspace",
        "forks",
        structured("memory"),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(task_count=counted(Task))

    @display(description="tasks", ordering="task_count")
    def tasks(self, context: Any) -> SafeString:
        return cells.number(context.task_count, Task, context__id__exact=context.pk)

    @display(description="messages")
    def messages(self, context: Context) -> SafeString:
        return cells.number(context.messages.count(), Message, context__id__exact=context.pk)

    def has_store_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("record.change_context")

    @admin.action(description="Move into cold storage", permissions=["store"])
    def move_into_cold_storage(self, request: HttpRequest, contexts: Any) -> None:
        for context in contexts:
            try:
                due.cool_whole(context)
                self.message_user(request, f"{context.pk} is in cold storage.")
            except StaysWarm as reason:
                self.message_user(request, f"{context.pk} stays: {reason}", messages.WARNING)

    @admin.action(description="Bring back from cold storage", permissions=["store"])
    def bring_back(self, request: HttpRequest, contexts: Any) -> None:
        for context in contexts.filter(deleted_at=None).exclude(cold_file=""):
            restored(context)
            self.message_user(request, f"{context.pk} is back.")

    @display(description="archived", ordering="archived_at")
    def archived(self, context: Context) -> SafeString:
        return cells.moment(context.archived_at)

    @display(description="in cold storage", ordering="cold_at")
    def cold(self, context: Context) -> SafeString:
        return cells.moment(context.cold_at)

    @display(description="cleared", ordering="deleted_at")
    def cleared(self, context: Context) -> SafeString:
        return cells.moment(context.deleted_at)

    @display(description="forks")
    def forks(self, context: Context) -> SafeString:
        return cells.number(context.forks.count(), Context, parent__id__exact=context.pk)

    @display(description="works for task")
    def works_for(self, context: Context) -> SafeString:
        return cells.row_id(Task, context.parent_task)

    @display(description="id")
    def key(self, context: Context) -> SafeString:
        return cells.ident(context.pk)

    @display(description="A2A contextId")
    def a2a_id(self, context: Context) -> SafeString:
        return cells.ident(context.context_id)


def counted(model: type[Task]) -> Coalesce:
    """How many rows of a model a context has, by their index on it."""
    rows = model.objects.filter(context=OuterRef("pk")).order_by().values("context")
    return Coalesce(Subquery(rows.annotate(number=Count("pk")).values("number")), 0)
