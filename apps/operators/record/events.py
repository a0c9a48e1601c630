"""The log, line by line."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin
from django.contrib.admin import display
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.operators.record import columns
from apps.record.models import Context, Event, Run, Task
from console import cells
from console.records import ReadOnlyAdmin, structured


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
    narrowings = {
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
        structured("payload"),
    )

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Within a context the index, by which its log is kept."""
        return ("-index",) if "context__id__exact" in request.GET else cast(Any, self.ordering)

    @display(description="artifact")
    def artifact(self, event: Event) -> SafeString:
        return cells.ident(event.artifact_id)
