"""Admin pages of the record, read-only: contexts, messages, artifacts, events, feedback, and stored files."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.accounts.models import User, Workspace
from apps.agents.models import Agent
from apps.features.archive import archiving
from apps.features.archive.archiving import CannotArchive
from apps.features.signing.signatures import Verdict, verdict_on
from apps.features.uploads.models import Upload
from apps.operators import columns
from apps.operators.panels import LiveAdmin
from apps.record.lookup import restored
from apps.record.models import Accepted, Artifact, Blob, Context, Event, Feedback, Message, Run, Task
from console import cells
from console.admin import ReadOnlyAdmin, json_cell, time_cell
from console.cells import Tone


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
    link_filters = {
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
        json_cell("memory"),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(task_count=row_count(Task))

    @display(description="tasks", ordering="task_count")
    def tasks(self, context: Any) -> SafeString:
        return cells.count_link(context.task_count, Task, context__id__exact=context.pk)

    @display(description="messages")
    def messages(self, context: Context) -> SafeString:
        return cells.count_link(context.messages.count(), Message, context__id__exact=context.pk)

    def has_store_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("record.change_context")

    @admin.action(description="Move into cold storage", permissions=["store"])
    def move_into_cold_storage(self, request: HttpRequest, contexts: Any) -> None:
        for context in contexts:
            try:
                archiving.move_with_children(context)
                self.message_user(request, f"{context.pk} is in cold storage.")
            except CannotArchive as reason:
                self.message_user(request, f"{context.pk} stays: {reason}", messages.WARNING)

    @admin.action(description="Bring back from cold storage", permissions=["store"])
    def bring_back(self, request: HttpRequest, contexts: Any) -> None:
        for context in contexts.filter(deleted_at=None).exclude(cold_file=""):
            restored(context)
            self.message_user(request, f"{context.pk} is back.")

    @display(description="archived", ordering="archived_at")
    def archived(self, context: Context) -> SafeString:
        return cells.relative_time(context.archived_at)

    @display(description="in cold storage", ordering="cold_at")
    def cold(self, context: Context) -> SafeString:
        return cells.relative_time(context.cold_at)

    @display(description="cleared", ordering="deleted_at")
    def cleared(self, context: Context) -> SafeString:
        return cells.relative_time(context.deleted_at)

    @display(description="forks")
    def forks(self, context: Context) -> SafeString:
        return cells.count_link(context.forks.count(), Context, parent__id__exact=context.pk)

    @display(description="works for task")
    def works_for(self, context: Context) -> SafeString:
        return cells.row_link(Task, context.parent_task)

    @display(description="id")
    def key(self, context: Context) -> SafeString:
        return cells.identifier(context.pk)

    @display(description="A2A contextId")
    def a2a_id(self, context: Context) -> SafeString:
        return cells.identifier(context.context_id)


def row_count(model: type[Task]) -> Coalesce:
    """How many rows of a model a context has, by their index on it."""
    rows = model.objects.filter(context=OuterRef("pk")).order_by().values("context")
    return Coalesce(Subquery(rows.annotate(number=Count("pk")).values("number")), 0)


SIGNATURE_TONES = {Verdict.GOOD: Tone.DONE, Verdict.MISSING: Tone.STOPPED}


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    list_display = (
        columns.message_gist,
        columns.role,
        columns.agent,
        columns.context,
        columns.index,
        columns.task,
        columns.message_id,
        columns.created,
    )
    list_filter = ("role",)
    search_fields = ("=message_id",)
    search_help_text = "Id of a message, context or task"
    id_lookups = ("context_id", "task_id", "message_id")
    date_hierarchy = "created_at"
    ordering = ("-pk",)
    list_select_related = ("agent",)
    link_filters = {"context__id__exact": ("context", Context), "task__id__exact": ("task", Task)}
    fields = (
        "index",
        "role",
        columns.agent,
        columns.created,
        columns.message_id,
        columns.context,
        columns.task,
        *map(json_cell, ("parts", "references", "extensions", "metadata")),
    )


@admin.register(Artifact)
class ArtifactAdmin(ReadOnlyAdmin):
    list_display = (
        columns.artifact_name,
        columns.artifact_state,
        columns.artifact_gist,
        columns.task,
        columns.run,
        columns.created,
    )
    list_filter = ("state",)
    search_fields = ("=artifact_id", "name", "=digest")
    search_help_text = "Id of an artifact or task, name, digest"
    id_lookups = ("artifact_id", "task_id", "run")
    date_hierarchy = "created_at"
    ordering = ("-pk",)
    link_filters = {"task__id__exact": ("task", Task)}
    fields = (
        columns.artifact_state,
        "name",
        columns.created,
        "key",
        columns.task,
        columns.run,
        "event",
        "digest_",
        "signed",
        "description",
        *map(json_cell, ("parts", "extensions", "metadata")),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("task__context")

    @display(description="artifact id")
    def key(self, artifact: Artifact) -> SafeString:
        return cells.identifier(artifact.artifact_id)

    @display(description="digest")
    def digest_(self, artifact: Artifact) -> SafeString:
        return cells.identifier(artifact.digest)

    @display(description="signature")
    def signed(self, artifact: Artifact) -> SafeString:
        """What the signature is worth, found out now; and by whom and when it says that it was made."""
        verdict = verdict_on(artifact)
        state = cells.state(verdict, SIGNATURE_TONES.get(verdict, Tone.FAILED))
        if verdict != Verdict.GOOD:
            return state
        return format_html("{} {}, {}", state, artifact.signature["agent"], artifact.signature["created"])

    @display(description="first event")
    def event(self, artifact: Artifact) -> SafeString:
        """The line of the log that began it."""
        from_here = {"context__id__exact": artifact.task.context_id, "index__gte": artifact.first_event}
        return cells.link(f"#{artifact.first_event:,}", cells.list_url(Event, **from_here))


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = (
        columns.index,
        columns.type_,
        columns.event_gist,
        columns.context,
        columns.task,
        columns.at,
    )
    list_filter = ("type",)
    search_fields = ("=artifact_id",)
    search_help_text = "Id of a context or task"
    id_lookups = ("context_id", "task_id")
    # No date hierarchy: it would read the whole log for its first line. The newest come first, by key.
    ordering = ("-pk",)
    link_filters = {
        "context__id__exact": ("context", Context),
        "task__id__exact": ("task", Task),
        "run__exact": ("run", Run),
    }
    fields = (
        "index",
        "type",
        columns.at,
        columns.context,
        columns.task,
        columns.run,
        "artifact",
        json_cell("payload"),
    )

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Within a context the index, by which its log is kept."""
        return ("-index",) if "context__id__exact" in request.GET else cast(Any, self.ordering)

    @display(description="artifact")
    def artifact(self, event: Event) -> SafeString:
        return cells.identifier(event.artifact_id)


@display(description="agent")
def feedback_agent(row: Feedback) -> SafeString:
    return columns.agent(row.task) if row.task else cells.NOTHING


class StarsFilter(admin.SimpleListFilter):
    title = "stars"
    parameter_name = "stars"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(stars), "★" * stars) for stars in range(columns.STARS, 0, -1)]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value() or ""
        return queryset.filter(payload__rating=int(value)) if value.isdecimal() else queryset


@admin.register(Feedback)
class FeedbackAdmin(ReadOnlyAdmin):
    list_display = (columns.stars, columns.comment, feedback_agent, columns.task, columns.at)
    list_filter = (StarsFilter, "task__agent")
    search_fields = ("payload__feedback",)
    search_help_text = "Words, id of a task or context"
    id_lookups = ("task_id", "context_id")
    list_select_related = ("task__agent",)
    ordering = ("-pk",)
    link_filters = {"task__agent__id__exact": ("agent", Agent), "task__id__exact": ("task", Task)}
    fields = (columns.stars, "text", feedback_agent, columns.task, columns.context, columns.at, json_cell("payload"))

    @display(description="says")
    def text(self, row: Feedback) -> str:
        return row.text or "–"


@admin.register(Accepted)
class AcceptedAdmin(ReadOnlyAdmin):
    list_display = (columns.message_id, "sender", "agent_", columns.task, "answer_", columns.created)
    list_filter = ("agent",)
    list_select_related = ("agent",)
    list_display_links = (columns.created,)
    search_fields = ("=message_id", "=sender")
    search_help_text = "Id of a message or task, or a sender"
    id_lookups = ("message_id", "task_id")
    ordering = ("-pk",)
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = (
        columns.message_id,
        "sender",
        "agent_",
        columns.task,
        "answer_",
        columns.created,
        time_cell("claimed_until"),
        "hash_",
    )

    @display(description="agent", ordering="agent__name")
    def agent_(self, accepted: Accepted) -> SafeString:
        return cells.link(accepted.agent.name, cells.page_url(Agent, accepted.agent_id))

    @display(description="answer")
    def answer_(self, accepted: Accepted) -> SafeString:
        return cells.row_link(Message, accepted.answer_id)

    @display(description="hash of the body")
    def hash_(self, accepted: Accepted) -> SafeString:
        return cells.identifier(accepted.body_hash)


@admin.register(Blob)
class BlobAdmin(ReadOnlyAdmin):
    list_display = ("digest", "bytes", "uses", "workspace_", columns.created)
    list_select_related = ("workspace",)
    search_fields = ("=sha256",)
    search_help_text = "SHA-256"
    ordering = ("-pk",)
    link_filters = {"workspace__id__exact": ("workspace", Workspace)}
    fields = ("digest", "bytes", "uses", "workspace_", columns.created)

    @display(description="SHA-256", ordering="sha256")
    def digest(self, blob: Blob) -> SafeString:
        return cells.identifier(blob.sha256, cells.page_url(Blob, blob.pk))

    @display(description="size", ordering="size")
    def bytes(self, blob: Blob) -> str:
        return filesizeformat(blob.size)

    @display(description="workspace", ordering="workspace__name")
    def workspace_(self, blob: Blob) -> SafeString:
        return cells.link(blob.workspace, cells.page_url(Workspace, blob.workspace_id))


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin):
    list_display = ("filename", "owner", "bytes", "is_whole_", time_cell("created_at"), time_cell("expires_at"))
    list_select_related = ("owner",)
    search_fields = ("=id", "=sha256", "=owner__email")
    search_help_text = "Id, SHA-256, or an owner's e-mail address"
    ordering = ("-created_at",)
    link_filters = {"workspace__id__exact": ("workspace", Workspace)}
    fields = (
        "filename",
        "owner",
        "bytes",
        "claimed",
        "media_type",
        "digest",
        "is_whole_",
        time_cell("created_at"),
        time_cell("expires_at"),
    )

    @display(description="size", ordering="size")
    def bytes(self, upload: Upload) -> str:
        return filesizeformat(upload.size)

    @display(description="whole", boolean=True)
    def is_whole_(self, upload: Upload) -> bool:
        return upload.is_whole

    @display(description="SHA-256")
    def digest(self, upload: Upload) -> SafeString:
        return cells.identifier(upload.sha256)
