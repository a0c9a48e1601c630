"""What was said, and what was delivered."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import display
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.features.signing.signatures import Verdict, verdict_on
from apps.operators.record import columns
from apps.record.models import Artifact, Context, Event, Message, Task
from console import cells
from console.cells import Tone
from console.records import ReadOnlyAdmin, structured

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
    narrowings = {"context__id__exact": ("context", Context), "task__id__exact": ("task", Task)}
    fields = (
        "index",
        "role",
        columns.agent,
        columns.created,
        columns.message_id,
        columns.context,
        columns.task,
        *map(structured, ("parts", "references", "extensions", "metadata")),
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
    narrowings = {"task__id__exact": ("task", Task)}
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
        *map(structured, ("parts", "extensions", "metadata")),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("task__context")

    @display(description="artifact id")
    def key(self, artifact: Artifact) -> SafeString:
        return cells.ident(artifact.artifact_id)

    @display(description="digest")
    def digest_(self, artifact: Artifact) -> SafeString:
        return cells.ident(artifact.digest)

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
