"""Read-only admin pages of the record and stored files."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from django.contrib import admin
from django.contrib.admin import display
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString

from apps.accounts.models import User, Workspace
from apps.agents.models import Agent
from apps.conversations.uploads.models import Upload
from apps.operators import columns
from apps.operators.dashboard.filters import OF_FEEDBACK, OF_MESSAGES
from apps.operators.lists import ListAdmin
from apps.operators.panels import LiveAdmin
from apps.record.execution import Accepted, Run
from apps.record.models import Artifact, Blob, Context, Event, Feedback, Message, Task
from parley.faces import cells
from parley.faces.admin import MenuItem, ReadOnlyAdmin, column, count_cell, id_cell, key_cell


@admin.register(Context)
class ContextAdmin(LiveAdmin):
    menu = MenuItem("Record", 1, "forum")
    tasks = count_cell("tasks", Task, "context__id__exact", lambda row: row.task_count, ordering="task_count")
    list_display = (
        columns.title, "agent", "owner", tasks, columns.events_of_context, columns.updated, "cold_at",
    )  # fmt: skip
    list_filter = (
        "updated_at", "agent", ("deleted_at", admin.EmptyFieldListFilter), ("cold_at", admin.EmptyFieldListFilter),
    )  # fmt: skip
    search_fields = ("=context_id", "title", "owner__email")
    search_help_text = "Id, title or owner's e-mail"
    id_lookups = ("pk", "context_id", "parent_task")
    ordering = ("-updated_at",)
    sortable_by = (columns.updated,)
    select_related = ("agent", "owner", "workspace", "parent")
    link_filters = {
        "owner__id__exact": ("owner", User),
        "workspace__id__exact": ("workspace", Workspace),
        "agent__id__exact": ("agent", Agent),
        "parent__id__exact": ("forks of", Context),
    }
    fields = (
        id_cell("pk"), id_cell("context_id", "A2A contextId"), "title", "created_at", "archived_at", "cold_at",
        "deleted_at", tasks,
        count_cell("messages", Message, "context__id__exact", lambda row: row.messages.count()),
        key_cell(Task, "parent_task", "called by task"), "parent", "forked_at", "fork_reason", "workspace",
        count_cell("forks", Context, "parent__id__exact", lambda row: row.forks.count()), "memory",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(task_count=row_count(Task))


def row_count(model: type[Task]) -> Coalesce:
    """A context's rows, counted by index."""
    rows = model.objects.filter(context=OuterRef("pk")).order_by().values("context")
    return Coalesce(Subquery(rows.annotate(number=Count("pk")).values("number")), 0)


@admin.register(Message)
class MessageAdmin(ListAdmin):
    menu = MenuItem("Record", 5, "chat")
    list_display = (
        columns.message_gist, columns.role, "agent", columns.context, columns.index, columns.task,
        columns.message_id, columns.created,
    )  # fmt: skip
    list_filter = ("created_at", "role", *OF_MESSAGES)
    search_fields = ("=message_id",)
    search_help_text = "Id of a message, session or task"
    id_lookups = ("context_id", "task_id", "message_id")
    ordering = ("-created_at",)
    sortable_by = (columns.created,)
    select_related = ("agent",)
    link_filters = {"context__id__exact": ("context", Context), "task__id__exact": ("task", Task)}
    fields = (
        "index", "role", "agent", "created_at", columns.message_id, columns.context, columns.task,
        *map(columns.content_cell, ("parts", "references", "extensions", "metadata")),
    )  # fmt: skip


@admin.register(Artifact)
class ArtifactAdmin(ListAdmin):
    menu = MenuItem("Record", 6, "draft")
    NEWEST = 10_000  # wide rows
    filters_newest = True
    tones = columns.ARTIFACT_TONES
    list_display = (columns.artifact_name, "state", columns.artifact_gist, columns.task, columns.run, "created_at")
    list_filter = ("state",)
    search_fields = ("=artifact_id", "name", "=digest")
    search_help_text = "Id of an artifact or task, name, digest"
    id_lookups = ("artifact_id", "task_id", "run")
    ordering = ("-pk",)
    sortable_by = ()
    select_related = ("task__context",)
    link_filters = {"task__id__exact": ("task", Task)}
    fields = (
        "state", "name", "created_at", id_cell("artifact_id", "artifact id"), columns.task, columns.run, "event",
        id_cell("digest", "digest"), "description", "parts", "extensions", "metadata",
    )  # fmt: skip

    @display(description="first event")
    def event(self, artifact: Artifact) -> SafeString:
        from_here = {"context__id__exact": artifact.task.context_id, "index__gte": artifact.first_event}
        return cells.link(f"#{artifact.first_event:,}", cells.list_url(Event, **from_here))


@admin.register(Event)
class EventAdmin(ListAdmin):
    menu = MenuItem("Record", 4, "list")
    filters_newest = True
    list_display = (columns.index, columns.type_, columns.event_gist, columns.context, columns.task, "at")
    list_filter = ("type",)
    search_fields = ("=artifact_id",)
    search_help_text = "Id of a session or task"
    id_lookups = ("context_id", "task_id")
    # No date hierarchy: it would read the whole log for its first line.
    ordering = ("-pk",)
    sortable_by = ()
    link_filters = {
        "context__id__exact": ("context", Context),
        "task__id__exact": ("task", Task),
        "run__exact": ("run", Run),
    }
    fields = (
        "index", "type", "at", columns.context, columns.task, columns.run, id_cell("artifact_id", "artifact"),
        id_cell("hash", "hash"), columns.content_cell("payload"),
    )  # fmt: skip

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Within a context, by the indexed `index`."""
        return ("-index",) if "context__id__exact" in request.GET else cast(Any, self.ordering)


class RatingFilter(admin.SimpleListFilter):
    """Thumbs are 5 and 1; clients of the API may also give what is between."""

    title = "rating"
    parameter_name = "rating"
    ratings: ClassVar = {"good": (4, 5), "neutral": (3,), "bad": (1, 2)}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name.capitalize()) for name in self.ratings]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        wanted = self.ratings.get(self.value() or "")
        return queryset.filter(payload__rating__in=wanted) if wanted else queryset


@admin.register(Feedback)
class FeedbackAdmin(ListAdmin):
    menu = MenuItem("Record", 7, "star")
    agent = column("agent", lambda row: columns.agent(row.task) if row.task else cells.NOTHING)
    list_display = (columns.rating, columns.comment, agent, columns.task, "at")
    list_filter = (RatingFilter, "task__agent", *OF_FEEDBACK)
    search_fields = ("payload__feedback",)
    search_help_text = "Words, or id of a task or session"
    id_lookups = ("task_id", "context_id")
    select_related = ("task__agent",)
    ordering = ("-pk",)
    sortable_by = ()
    link_filters = {"task__agent__id__exact": ("agent", Agent), "task__id__exact": ("task", Task)}
    fields = (
        columns.rating, column("says", lambda row: row.text or "–"), agent, columns.task, columns.context, "at",
        "payload",
    )  # fmt: skip


@admin.register(Accepted)
class AcceptedAdmin(ListAdmin):
    menu = MenuItem("Storage", 1, "fingerprint")
    answer = key_cell(Message, "answer_id", "answer")
    list_display = (columns.message_id, "sender", "agent", columns.task, answer, columns.created)
    list_filter = ("agent",)
    select_related = ("agent",)
    list_display_links = (columns.created,)
    search_fields = ("=message_id", "=sender")
    search_help_text = "Id of a message or task, or a sender"
    id_lookups = ("message_id", "task_id")
    ordering = ("-pk",)
    sortable_by = ()
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = (*list_display, "claimed_until", id_cell("body_hash", "hash of the body"))


size = column("size", lambda row: filesizeformat(row.size), "size")


@admin.register(Blob)
class BlobAdmin(ReadOnlyAdmin):
    menu = MenuItem("Storage", 2, "database")
    digest = id_cell("sha256", "SHA-256", ordering="sha256", is_link=True)
    list_display = (digest, size, "uses", "workspace", "created_at")
    select_related = ("workspace",)
    search_fields = ("=sha256",)
    search_help_text = "SHA-256"
    ordering = ("-pk",)
    link_filters = {"workspace__id__exact": ("workspace", Workspace)}
    fields = list_display


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin):
    menu = MenuItem("Storage", 3, "upload_file")
    list_display = ("filename", "owner", size, "is_whole_", "created_at", "expires_at")
    select_related = ("owner",)
    search_fields = ("=id", "=sha256", "=owner__email")
    search_help_text = "Id, SHA-256, or an owner's e-mail address"
    ordering = ("-created_at",)
    link_filters = {"workspace__id__exact": ("workspace", Workspace)}
    fields = (
        "filename", "owner", size, "claimed", "media_type", id_cell("sha256", "SHA-256"), "is_whole_", "created_at",
        "expires_at",
    )  # fmt: skip

    @display(description="complete", boolean=True)
    def is_whole_(self, upload: Upload) -> bool:
        return upload.is_whole
