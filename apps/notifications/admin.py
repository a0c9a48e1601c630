"""Admin pages of people's channels and of what was sent there. Addresses are secrets, which no page shows."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import display
from django.utils.safestring import SafeString

from apps.notifications.models import Channel, Notification
from apps.notifications.sending import NOTIFICATIONS, SEND_AGAIN
from apps.operators import columns
from apps.operators.lists import ListAdmin
from apps.record.models import Context
from parley.faces import cells
from parley.faces.admin import IndexedStates, MenuItem, ReadOnlyAdmin, key_cell
from parley.faces.cells import Tone


@admin.register(Channel)
class ChannelAdmin(ReadOnlyAdmin):
    menu = MenuItem("Webhooks", 3, "campaign", "Channels of people")
    notifications = columns.list_link("notifications", Notification, "channel__id__exact")
    list_display = ("type", "user", "is_on", "problem", notifications, "created_at")
    list_filter = ("type", "is_on")
    search_fields = ("user__email",)
    ordering = ("-created_at",)
    fields = (
        "type", "user", "workspace", "is_on", "problem", "kinds", "agents", "digest", "questions_at_once",
        notifications, "created_at",
    )  # fmt: skip
    select_related = ("user", "workspace")
    deferred = ("url", "push_keys", "secret", "previous_secret")


@admin.register(Notification)
class NotificationAdmin(ListAdmin):
    menu = MenuItem("Webhooks", 4, "notifications")
    resource = NOTIFICATIONS
    acts = (SEND_AGAIN,)
    tones = {
        Notification.State.WAITING: Tone.QUEUED,
        Notification.State.SENDING: Tone.WORKING,
        Notification.State.SENT: Tone.DONE,
        Notification.State.SKIPPED: Tone.STOPPED,
        Notification.State.FAILED: Tone.FAILED,
    }
    session = key_cell(Context, "context", "session")
    outcome = columns.outcome_cell("reason", "reason")
    list_display = ("kind", "state", "to", session, "attempts", outcome, "created_at", "finished_at")
    list_filter = (("state", IndexedStates.of(("waiting",), ("failed",))),)
    search_fields = ("channel__user__email", "reason")
    search_help_text = "Id of a session or task, an e-mail address, or words of a reason"
    id_lookups = ("context", "task", "channel_id")
    ordering = ("-created_at", "-pk")
    link_filters = {"channel__id__exact": ("channel", Channel)}
    fields = (
        "kind", "state", "to", session, "attempts", "last_status", "reason", "created_at", "due_at", "queued_at",
        "finished_at",
    )  # fmt: skip
    select_related = ("channel__user",)
    deferred = ("channel__url", "channel__push_keys", "channel__secret", "channel__previous_secret")

    @display(description="to")
    def to(self, row: Notification) -> SafeString:
        words = f"{row.channel.user.email} by {row.channel.get_type_display()}"
        return cells.link(words, cells.page_url(Channel, row.channel_id))
