"""What people think of tasks."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import display
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.agents.models import Agent
from apps.operators.record import columns
from apps.record.models import Feedback, Task
from console import cells
from console.records import ReadOnlyAdmin, structured


@display(description="agent")
def agent(row: Feedback) -> SafeString:
    return columns.agent(row.task) if row.task else cells.NOTHING


class Stars(admin.SimpleListFilter):
    title = "stars"
    parameter_name = "stars"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(stars), "★" * stars) for stars in range(columns.STARS, 0, -1)]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value() or ""
        return queryset.filter(payload__rating=int(value)) if value.isdecimal() else queryset


@admin.register(Feedback)
class FeedbackAdmin(ReadOnlyAdmin):
    list_display = (columns.stars, columns.comment, agent, columns.task, columns.at)
    list_filter = (Stars, "task__agent")
    search_fields = ("payload__feedback",)
    search_help_text = "Words, id of a task or context"
    id_lookups = ("task_id", "context_id")
    list_select_related = ("task__agent",)
    ordering = ("-pk",)
    narrowings = {"task__agent__id__exact": ("agent", Agent), "task__id__exact": ("task", Task)}
    fields = (columns.stars, "text", agent, columns.task, columns.context, columns.at, structured("payload"))

    @display(description="says")
    def text(self, row: Feedback) -> str:
        return row.text or "–"
