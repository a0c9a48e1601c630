"""Admin pages of incoming webhooks and their events."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import display
from django.utils.safestring import SafeString

from apps.automation.incoming import EVENTS, PAUSE, RESUME, SEND_AGAIN, WEBHOOKS
from apps.automation.models import IncomingEvent, IncomingWebhook
from apps.operators import columns
from apps.operators.actions import ActingAdmin
from parley.faces import cells
from parley.faces.admin import MenuItem, ReadOnlyAdmin
from parley.faces.cells import Tone


@admin.register(IncomingWebhook)
class IncomingWebhookAdmin(ActingAdmin, ReadOnlyAdmin):
    """Operators pause and resume webhooks. Their owners edit them; their secrets are not shown."""

    menu = MenuItem("Plans", 5, "webhook")
    resource = WEBHOOKS
    acts = (PAUSE, RESUME)
    list_display = ("name", "state", "owner", "agent", "scheme", "last_event_at", "created_at")
    list_filter = ("scheme", ("paused_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "owner__email", "agent__slug")
    ordering = ("-created_at",)
    fields = (
        "name", "state", "owner", "agent", "scheme", "signature", "text", "inputs", "only_if", "old_secret_until",
        "last_event_at", "created_at",
        columns.list_link("events", IncomingEvent, "webhook__id__exact"),
    )  # fmt: skip
    select_related = ("owner", "agent")

    @display(description="state")
    def state(self, webhook: IncomingWebhook) -> SafeString:
        return cells.state("paused", Tone.STOPPED) if webhook.paused_at else cells.state("active", Tone.WORKING)


@admin.register(IncomingEvent)
class IncomingEventAdmin(ActingAdmin, ReadOnlyAdmin):
    menu = MenuItem("Plans", 6, "inbox")
    resource = EVENTS
    acts = (SEND_AGAIN,)
    operate_permission = "automation.change_incomingwebhook"
    tones = {
        IncomingEvent.State.WAITING: Tone.QUEUED,
        IncomingEvent.State.STARTED: Tone.DONE,
        IncomingEvent.State.IGNORED: Tone.STOPPED,
        IncomingEvent.State.FAILED: Tone.FAILED,
    }
    list_display = ("received_at", "state", "webhook", "kind", columns.task, "reason")
    list_filter = ("state", "is_repeat")
    search_fields = ("webhook__name", "event_id")
    ordering = ("-received_at",)
    link_filters = {"webhook__id__exact": ("webhook", IncomingWebhook)}
    fields = (
        "received_at", "state", "webhook", "event_id", "kind", columns.task, "reason", "is_repeat", "body", "headers",
        "text", "inputs",
    )  # fmt: skip
    select_related = ("webhook", "task")
