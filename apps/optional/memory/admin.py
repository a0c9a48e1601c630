"""What operators see: which agents may know people's memory, and how much there is. Nobody's memory itself."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.optional.memory.models import AgentMemory
from parley.faces.admin import LoggedAdmin, MenuItem


@admin.register(AgentMemory)
class AgentMemoryAdmin(LoggedAdmin):
    """Rights for all people. Those that people gave for themselves are not shown."""

    menu = MenuItem("Record", 13, "psychology")
    list_display = ("agent", "uses")
    fields = ("agent", "uses")
    list_select_related = ("agent",)
    search_fields = ("agent__slug", "agent__name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(owner=None)
