"""Admin pages of webhooks and their deliveries."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin import display
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.a2a.http import V0_3, V1_0
from apps.a2a.models import Delivery, PushConfig
from apps.a2a.webhooks import retry_deliveries
from apps.accounts.resources import NotNeeded
from apps.operators import columns
from apps.operators.actions import button, list_action
from apps.operators.bulk import Doing, RowAction, register
from apps.operators.lists import ListAdmin
from apps.record.models import Event, Task
from console import cells
from console.admin import IndexedStates, column, id_cell, time_cell
from console.cells import Tone

DELIVERY_TONES = {
    Delivery.State.WAITING: Tone.QUEUED,
    Delivery.State.DELIVERED: Tone.DONE,
    Delivery.State.DEAD: Tone.FAILED,
}
next_call = time_cell("due_at", "next call")


def _send_again(delivery: Delivery, doing: Doing) -> str:
    if delivery.state == Delivery.State.WAITING and doing.again:
        return "Queued to be sent again."
    if delivery.state != Delivery.State.DEAD or not retry_deliveries([delivery.pk]):
        raise NotNeeded("Only deliveries that were given up can be sent again.")
    return "Queued to be sent again."


SEND_AGAIN = register(RowAction("delivery.send-again", "Send again", Delivery, "a2a.change_delivery", _send_again))
SEND_AGAIN_DIALOG = {
    "title": "Send this delivery again?",
    "description": "It is put back into the queue of its webhook and tried as often as a new one.",
    "form_submit_text": "Send again",
}


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

    config = id_cell("config_id", ordering="config_id", is_link=True)
    address = column("URL", lambda config: cells.shortened(config.url), "url")
    deliveries = column(
        "deliveries", lambda config: cells.link("deliveries", cells.list_url(Delivery, config__id__exact=config.pk))
    )
    list_display = (config, columns.task, address, next_call, deliveries, columns.created)
    list_filter = (VersionFilter, ("due_at", admin.EmptyFieldListFilter))
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
        deliveries,
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
class DeliveryAdmin(ListAdmin):
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
    list_filter = (("state", IndexedStates.of(("waiting",), ("dead",))), AnswerFilter)
    unindexed = ("answered",)
    export_fields = ("config__url",)
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
    operate_permission = SEND_AGAIN.permission
    actions_detail = ("send_again",)

    send_again = button(SEND_AGAIN, icon="send", url_path="send-again", dialog=SEND_AGAIN_DIALOG)
    send_selected_again = list_action(SEND_AGAIN)

    def is_offered(self, action: str, row: Delivery) -> bool:
        return row.state == Delivery.State.DEAD

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
