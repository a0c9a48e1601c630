"""Admin pages of webhooks and their deliveries."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin import display
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.a2a.http import V0_3, V1_0
from apps.a2a.models import Delivery, PushConfig
from apps.a2a.webhooks import DELIVERIES, SEND_AGAIN
from apps.operators import columns
from apps.operators.lists import ListAdmin
from apps.record.models import Event, Task
from parley.faces import cells
from parley.faces.admin import IndexedStates, MenuItem, column, id_cell, time_cell
from parley.faces.cells import Tone


class VersionFilter(admin.SimpleListFilter):
    """With the versions of A2A that there are: reading those in use would read the whole table."""

    title = parameter_name = "version"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(version, version) for version in (V1_0, V0_3)]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(version=self.value()) if self.value() else queryset


@admin.register(PushConfig)
class PushConfigAdmin(ListAdmin):
    """A page shows only a secret's scheme."""

    menu = MenuItem("Webhooks", 1, "webhook")
    config = id_cell("config_id", ordering="config_id", is_link=True)
    address = column("URL", lambda config: cells.shortened(config.url), "url")
    next_call = time_cell("due_at", "next call")
    deliveries = columns.list_link("deliveries", Delivery, "config__id__exact")
    list_display = (config, columns.task, address, next_call, deliveries, "created_at")
    list_filter = (VersionFilter, ("due_at", admin.EmptyFieldListFilter))
    search_fields = ("=config_id", "url")
    search_help_text = "Id of a webhook or task, or a URL"
    id_lookups = ("pk", "task_id")
    ordering = ("-created_at",)
    link_filters = {"task__id__exact": ("task", Task)}
    fields = (
        config, columns.task, address, "scheme", "version", next_call, "lease_until", deliveries, "created_at",
    )  # fmt: skip
    deferred = ("token", "credentials")


class AnswerFilter(admin.SimpleListFilter):
    """By the kind of the last HTTP status: reading all that occur would read the whole table."""

    title = "last answer"
    parameter_name = "answered"
    KINDS: ClassVar = {"2": "2xx success", "3": "3xx redirect", "4": "4xx client error", "5": "5xx server error"}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*self.KINDS.items(), ("none", "no answer")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        if self.value() == "none":
            return queryset.filter(last_status=None)
        if (kind := self.value()) not in self.KINDS:
            return queryset
        return queryset.filter(last_status__range=(int(kind) * 100, int(kind) * 100 + 99))


@admin.register(Delivery)
class DeliveryAdmin(ListAdmin):
    menu = MenuItem("Webhooks", 2, "outbox")
    resource = DELIVERIES
    acts = (SEND_AGAIN,)
    tones = {
        Delivery.State.WAITING: Tone.QUEUED,
        Delivery.State.DELIVERED: Tone.DONE,
        Delivery.State.DEAD: Tone.FAILED,
    }
    number = column("#", lambda delivery: cells.link(delivery.pk, cells.page_url(Delivery, delivery.pk)), "pk")
    answer = columns.outcome_cell("answer", "last_error")
    list_display = (number, "state", "webhook", "event", "attempts", answer, "created_at", "finished_at")
    list_filter = (("state", IndexedStates.of(("waiting",), ("dead",))), AnswerFilter)
    unindexed = ("answered",)
    export_fields = ("config__url",)
    search_fields = ("config__url", "last_error")
    search_help_text = "Id of a webhook or task, a URL, or words of an error"
    id_lookups = ("config_id", "config__task_id")
    ordering = ("-pk",)
    link_filters = {"config__id__exact": ("webhook", PushConfig)}
    fields = (
        "state", "webhook", "event", "attempts", "last_status", "last_error", "created_at", "queued_at", "finished_at",
    )  # fmt: skip
    select_related = ("config__task",)
    deferred = ("config__token", "config__credentials")

    @display(description="webhook")
    def webhook(self, delivery: Delivery) -> SafeString:
        return cells.link(cells.shortened(delivery.config.url, 60), cells.page_url(PushConfig, delivery.config_id))

    @display(description="event", ordering="event_index")
    def event(self, delivery: Delivery) -> SafeString:
        context: Any = delivery.config.task.context_id
        return cells.link(delivery.event_index, cells.list_url(Event, context__id__exact=context))
