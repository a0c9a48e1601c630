"""Read-only admin pages of the record and stored files."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User, Workspace
from apps.agents.models import Agent
from apps.features.archive import archiving
from apps.features.archive.archiving import CannotArchive
from apps.features.evaluations import evaluating
from apps.features.evaluations.models import Example
from apps.features.signing.models import Verdict
from apps.features.signing.signatures import examine
from apps.features.uploads.models import Upload
from apps.operators import columns
from apps.operators.dashboard.filters import OF_FEEDBACK, OF_MESSAGES
from apps.operators.lists import ListAdmin
from apps.operators.panels import LiveAdmin
from apps.record.errors import TaskNotFound
from apps.record.execution import Accepted, Run
from apps.record.lookup import restored
from apps.record.models import Artifact, Blob, Context, Event, Feedback, Message, Task
from console import cells
from console.admin import (
    ReadOnlyAdmin,
    column,
    count_cell,
    id_cell,
    json_cell,
    key_cell,
    redirect_dialog,
    related_cell,
    time_cell,
)
from console.cells import Tone


@admin.register(Context)
class ContextAdmin(LiveAdmin):
    tasks = count_cell("tasks", Task, "context__id__exact", lambda row: row.task_count, ordering="task_count")
    cold = time_cell("cold_at", "in cold storage")
    list_display = (
        columns.title,
        columns.agent,
        columns.owner,
        tasks,
        columns.events_of_context,
        columns.updated,
        cold,
    )
    list_filter = (
        "updated_at",
        "agent",
        ("deleted_at", admin.EmptyFieldListFilter),
        ("cold_at", admin.EmptyFieldListFilter),
    )
    actions = ("move_into_cold_storage", "bring_back")
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
        id_cell("pk"),
        id_cell("context_id", "A2A contextId"),
        "title",
        columns.created,
        column("archived", lambda row: cells.relative_time(row.archived_at), "archived_at"),
        cold,
        column("deleted", lambda row: cells.relative_time(row.deleted_at), "deleted_at"),
        tasks,
        count_cell("messages", Message, "context__id__exact", lambda row: row.messages.count()),
        key_cell(Task, "parent_task", "called by task"),
        "parent",
        "forked_at",
        "fork_reason",
        "workspace",
        count_cell("forks", Context, "parent__id__exact", lambda row: row.forks.count()),
        json_cell("memory"),
    )
    operate_permission = "record.change_context"

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(task_count=row_count(Task))

    @admin.action(description="Move to cold storage", permissions=["operate"])
    def move_into_cold_storage(self, request: HttpRequest, contexts: Any) -> None:
        for context in contexts:
            try:
                archiving.move_with_children(context)
                _record(AuditAction.SESSION_ARCHIVED, context)
                self.message_user(request, f"{context.pk} is in cold storage.")
            except CannotArchive as reason:
                self.message_user(request, f"{context.pk} was not moved: {reason}", messages.WARNING)

    @admin.action(description="Restore from cold storage", permissions=["operate"])
    def bring_back(self, request: HttpRequest, contexts: Any) -> None:
        for context in contexts.filter(deleted_at=None).exclude(cold_file=""):
            restored(context)
            _record(AuditAction.SESSION_RESTORED, context)
            self.message_user(request, f"{context.pk} was restored.")


def _record(action: AuditAction, context: Context) -> None:
    """Not in admin's history, which would keep the title."""
    audit.record(action, object=audit.session_subject(context.pk), workspace=context.workspace_id)


def row_count(model: type[Task]) -> Coalesce:
    """A context's rows, counted by index."""
    rows = model.objects.filter(context=OuterRef("pk")).order_by().values("context")
    return Coalesce(Subquery(rows.annotate(number=Count("pk")).values("number")), 0)


SIGNATURE_TONES = {Verdict.GOOD: Tone.DONE, Verdict.MISSING: Tone.STOPPED, Verdict.PENDING: Tone.QUEUED}


@admin.register(Message)
class MessageAdmin(ListAdmin):
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
    list_filter = ("created_at", "role", *OF_MESSAGES)
    search_fields = ("=message_id",)
    search_help_text = "Id of a message, session or task"
    id_lookups = ("context_id", "task_id", "message_id")
    ordering = ("-created_at",)
    sortable_by = (columns.created,)
    select_related = ("agent",)
    link_filters = {"context__id__exact": ("context", Context), "task__id__exact": ("task", Task)}
    fields = (
        "index",
        "role",
        columns.agent,
        columns.created,
        columns.message_id,
        columns.context,
        columns.task,
        *map(columns.content_cell, ("parts", "references", "extensions", "metadata")),
    )


@admin.register(Artifact)
class ArtifactAdmin(ListAdmin):
    NEWEST = 10_000  # wide rows
    filters_newest = True
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
    ordering = ("-pk",)
    sortable_by = ()
    select_related = ("task__context",)
    link_filters = {"task__id__exact": ("task", Task)}
    fields = (
        columns.artifact_state,
        "name",
        columns.created,
        id_cell("artifact_id", "artifact id"),
        columns.task,
        columns.run,
        "event",
        id_cell("digest", "digest"),
        "signed",
        "description",
        *map(json_cell, ("parts", "extensions", "metadata")),
    )

    @display(description="signature")
    def signed(self, artifact: Artifact) -> SafeString:
        """Verified now."""
        found = examine(artifact)
        verdict = found.verdict
        state = cells.state(verdict, SIGNATURE_TONES.get(verdict, Tone.FAILED))
        if verdict != Verdict.GOOD:
            return state
        return format_html("{} {}, {}", state, found.claims["agent"], found.claims["created"])

    @display(description="first event")
    def event(self, artifact: Artifact) -> SafeString:
        from_here = {"context__id__exact": artifact.task.context_id, "index__gte": artifact.first_event}
        return cells.link(f"#{artifact.first_event:,}", cells.list_url(Event, **from_here))


@admin.register(Event)
class EventAdmin(ListAdmin):
    filters_newest = True
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
        "index",
        "type",
        columns.at,
        columns.context,
        columns.task,
        columns.run,
        id_cell("artifact_id", "artifact"),
        id_cell("hash", "hash"),
        columns.content_cell("payload"),
    )

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


ADD_EXAMPLE_DIALOG = {
    "title": "Add to the agent's examples?",
    "description": "The first message becomes an example. A comment becomes what a language model checks answers by.",
    "form_submit_text": "Add",
}


@admin.register(Feedback)
class FeedbackAdmin(ListAdmin):
    agent = column("agent", lambda row: columns.agent(row.task) if row.task else cells.NOTHING)
    list_display = (columns.rating, columns.comment, agent, columns.task, columns.at)
    list_filter = (RatingFilter, "task__agent", *OF_FEEDBACK)
    search_fields = ("payload__feedback",)
    search_help_text = "Words, or id of a task or session"
    id_lookups = ("task_id", "context_id")
    select_related = ("task__agent",)
    ordering = ("-pk",)
    sortable_by = ()
    link_filters = {"task__agent__id__exact": ("agent", Agent), "task__id__exact": ("task", Task)}
    operate_permission = "evaluations.add_example"
    actions_detail = ("add_example",)
    fields = (
        columns.rating,
        column("says", lambda row: row.text or "–"),
        agent,
        columns.task,
        columns.context,
        columns.at,
        json_cell("payload"),
    )

    def has_operate_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        """An example shows the text of a message."""
        return super().has_operate_permission(request, object_id) and request.user.has_perm("record.view_message")

    def is_offered(self, action: str, row: Feedback) -> bool:
        return action != "add-example" or row.task_id is not None

    @action(
        description="Add to examples",
        permissions=["operate"],
        icon="quiz",
        dialog=ADD_EXAMPLE_DIALOG,
        url_path="add-example",
    )
    def add_example(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        """The rated message as an example of its agent; the comment becomes what a model judges by."""
        rated = self.get_or_404(request, object_id)
        if rated.task is None:
            raise Http404
        assert isinstance(request.user, User)
        try:
            example = evaluating.add_from_task(rated.task, request.user, rated.text)
        except TaskNotFound:
            messages.error(request, "The rated message has no text, or is gone.")
            return redirect_dialog(Feedback, object_id)
        return redirect_dialog(Example, example.pk)


@admin.register(Accepted)
class AcceptedAdmin(ListAdmin):
    agent = related_cell("agent", ordering="agent__name")
    answer = key_cell(Message, "answer_id", "answer")
    list_display = (columns.message_id, "sender", agent, columns.task, answer, columns.created)
    list_filter = ("agent",)
    select_related = ("agent",)
    list_display_links = (columns.created,)
    search_fields = ("=message_id", "=sender")
    search_help_text = "Id of a message or task, or a sender"
    id_lookups = ("message_id", "task_id")
    ordering = ("-pk",)
    sortable_by = ()
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = (
        columns.message_id,
        "sender",
        agent,
        columns.task,
        answer,
        columns.created,
        time_cell("claimed_until"),
        id_cell("body_hash", "hash of the body"),
    )


size = column("size", lambda row: filesizeformat(row.size), "size")


@admin.register(Blob)
class BlobAdmin(ReadOnlyAdmin):
    digest = id_cell("sha256", "SHA-256", ordering="sha256", is_link=True)
    workspace = related_cell("workspace", ordering="workspace__name")
    list_display = (digest, size, "uses", workspace, columns.created)
    select_related = ("workspace",)
    search_fields = ("=sha256",)
    search_help_text = "SHA-256"
    ordering = ("-pk",)
    link_filters = {"workspace__id__exact": ("workspace", Workspace)}
    fields = list_display


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin):
    list_display = ("filename", "owner", size, "is_whole_", time_cell("created_at"), time_cell("expires_at"))
    select_related = ("owner",)
    search_fields = ("=id", "=sha256", "=owner__email")
    search_help_text = "Id, SHA-256, or an owner's e-mail address"
    ordering = ("-created_at",)
    link_filters = {"workspace__id__exact": ("workspace", Workspace)}
    fields = (
        "filename",
        "owner",
        size,
        "claimed",
        "media_type",
        id_cell("sha256", "SHA-256"),
        "is_whole_",
        time_cell("created_at"),
        time_cell("expires_at"),
    )

    @display(description="complete", boolean=True)
    def is_whole_(self, upload: Upload) -> bool:
        return upload.is_whole
