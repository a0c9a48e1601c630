"""Admin pages of webhooks and their deliveries."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin import display
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.a2a.models import Delivery, PushConfig
from apps.a2a.webhooks import retry_deliveries
from apps.operators import columns
from apps.record.models import Event, Task
from console import cells
from console.admin import ReadOnlyAdmin, column, id_cell, time_cell
from console.cells import Tone

DELIVERY_TONES = {
    Delivery.State.WAITING: Tone.QUEUED,
    Delivery.State.DELIVERED: Tone.DONE,
    Delivery.State.DEAD: Tone.FAILED,
}
next_call = time_cell("due_at", "next call")


@admin.register(PushConfig)
class PushConfigAdmin(ReadOnlyAdmin):
    """A page shows only a secret's scheme."""

    config = id_cell("config_id", ordering="config_id", is_link=True)
    address = column("URL", lambda config: cells.shortened(config.url), "url")
    told = column(
        "deliveries", lambda config: cells.link("deliveries", cells.list_url(Delivery, config__id__exact=config.pk))
    )
    list_display = (config, columns.task, address, next_call, told, columns.created)
    list_filter = ("version", ("due_at", admin.EmptyFieldListFilter))
    search_fields = ("=config_id", "url")
    search_help_text = "Id of a webhook or task, or a URL"
    id_lookups = ("pk", "task_id")
    ordering = ("-created_at",)
    link_filters = {"task__id__exact": ("task", Task)}
    fields = (
        config,
        columns.task,
        address,
        "scheme",
        "version",
        next_call,
        time_cell("lease_until"),
        told,
        columns.created,
    )
    deferred = ("token", "credentials")


class AnswerFilter(admin.SimpleListFilter):
    """By the kind of the last HTTP status: reading all that occur would read the whole table."""

    title = "last answer"
    parameter_name = "answered"
    KINDS: ClassVar = {"2": "2xx success", "3": "3xx redirect", "4": "4xx client error", "5": "5xx server error"}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*self.KINDS.items(), ("none", "no answer")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value() or ""
        if value == "none":
            return queryset.filter(last_status=None)
        return (
            queryset.filter(last_status__range=(int(value) * 100, int(value) * 100 + 99))
            if value in self.KINDS
            else queryset
        )


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    number = column("#", lambda delivery: cells.link(delivery.pk, cells.page_url(Delivery, delivery.pk)), "pk")
    list_display = (
        number,
        "state_",
        "webhook",
        "event",
        "attempts",
        "answer",
        columns.created,
        time_cell("finished_at"),
    )
    list_filter = ("state", AnswerFilter)
    search_fields = ("config__url", "last_error")
    search_help_text = "Id of a webhook or task, a URL, or words of an error"
    id_lookups = ("config_id", "config__task_id")
    ordering = ("-pk",)
    link_filters = {"config__id__exact": ("webhook", PushConfig)}
    actions = ("send_selected_again",)
    fields = (
        "state_",
        "webhook",
        "event",
        "attempts",
        "last_status",
        "last_error",
        columns.created,
        time_cell("queued_at"),
        time_cell("finished_at"),
    )

    select_related = ("config__task",)
    deferred = ("config__token", "config__credentials")
    operate_permission = "a2a.change_delivery"

    @admin.action(description="Send again", permissions=["operate"])
    def send_selected_again(self, request: HttpRequest, deliveries: QuerySet[Delivery]) -> None:
        chosen = list(deliveries)
        queued = retry_deliveries(one.pk for one in chosen)
        for one in chosen:
            if one.state == Delivery.State.DEAD:
                self.log_change(request, one, "Sent again.")
        if queued:
            messages.success(request, f"{queued} queued to send again.")
        if left := len(chosen) - queued:
            messages.warning(request, f"{left} not sent again: only deliveries that were given up can be sent again.")

    @display(description="state", ordering="state")
    def state_(self, delivery: Delivery) -> SafeString:
        return cells.state(delivery.get_state_display(), DELIVERY_TONES[Delivery.State(delivery.state)])

    @display(description="webhook")
    def webhook(self, delivery: Delivery) -> SafeString:
        return cells.link(cells.shortened(delivery.config.url, 60), cells.page_url(PushConfig, delivery.config_id))

    @display(description="event", ordering="event_index")
    def event(self, delivery: Delivery) -> SafeString:
        context: Any = delivery.config.task.context_id
        return cells.link(delivery.event_index, cells.list_url(Event, context__id__exact=context))

    @display(description="answer", ordering="last_status")
    def answer(self, delivery: Delivery) -> str:
        return cells.shortened(delivery.last_error, 60) or str(delivery.last_status or "–")
