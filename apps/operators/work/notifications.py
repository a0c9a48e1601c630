"""Admin pages of people's channels and of what was sent there. Addresses are secrets, which no page shows."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import display
from django.utils.safestring import SafeString

from apps.accounts.resources import NotNeeded
from apps.features.notifications import sending
from apps.features.notifications.models import Channel, Notification
from apps.operators import columns
from apps.operators.actions import button, list_action
from apps.operators.bulk import Doing, RowAction, register
from apps.operators.lists import ListAdmin
from apps.record.models import Context
from console import cells
from console.admin import IndexedStates, ReadOnlyAdmin, column, json_cell, page_link, related_cell, time_cell
from console.cells import Tone

State = Notification.State
TONES = {
    State.WAITING: Tone.QUEUED,
    State.SENDING: Tone.WORKING,
    State.SENT: Tone.DONE,
    State.SKIPPED: Tone.STOPPED,
    State.FAILED: Tone.FAILED,
}


def _send_again(row: Notification, doing: Doing) -> str:
    if row.state == State.WAITING and doing.again:
        return "Queued to be sent again."
    if row.state != State.FAILED or not sending.retry([row.pk]):
        raise NotNeeded("Only notifications that were given up can be sent again.")
    return "Queued to be sent again."


SEND_AGAIN = register(
    RowAction("notification.send-again", "Send again", Notification, "notifications.change_notification", _send_again)
)
SEND_AGAIN_DIALOG = {
    "title": "Send this notification again?",
    "description": "It is tried as often as a new one. If it arrived before, it arrives twice.",
    "form_submit_text": "Send again",
}


@admin.register(Channel)
class ChannelAdmin(ReadOnlyAdmin):
    sent = column(
        "notifications",
        lambda row: cells.link("notifications", cells.list_url(Notification, channel__id__exact=row.pk)),
    )
    list_display = (
        page_link("type"),
        related_cell("user", text="email"),
        "is_on",
        "problem",
        sent,
        columns.created,
    )
    list_filter = ("type", "is_on")
    search_fields = ("user__email",)
    ordering = ("-created_at",)
    fields = (
        "type", related_cell("user", text="email"), related_cell("workspace"), "is_on", "problem", json_cell("kinds"),
        json_cell("agents"), "digest", "questions_at_once", sent, columns.created,
    )  # fmt: skip
    select_related = ("user", "workspace")
    deferred = ("url", "push_keys", "secret", "previous_secret")


@admin.register(Notification)
class NotificationAdmin(ListAdmin):
    list_display = (
        page_link("kind"),
        "state_",
        "to",
        "session",
        "attempts",
        "reason_",
        columns.created,
        time_cell("finished_at"),
    )
    list_filter = (("state", IndexedStates.of(("waiting",), ("failed",))),)
    search_fields = ("channel__user__email", "reason")
    search_help_text = "Id of a session or task, an e-mail address, or words of a reason"
    id_lookups = ("context", "task", "channel_id")
    ordering = ("-created_at", "-pk")
    link_filters = {"channel__id__exact": ("channel", Channel)}
    actions = ("send_selected_again",)
    fields = (
        "kind", "state_", "to", "session", "attempts", "last_status", "reason", columns.created, time_cell("due_at"),
        time_cell("queued_at"), time_cell("finished_at"),
    )  # fmt: skip
    select_related = ("channel__user",)
    deferred = ("channel__url", "channel__push_keys", "channel__secret", "channel__previous_secret")
    operate_permission = SEND_AGAIN.permission
    actions_detail = ("send_again",)

    send_again = button(SEND_AGAIN, icon="send", url_path="send-again", dialog=SEND_AGAIN_DIALOG)
    send_selected_again = list_action(SEND_AGAIN)

    def is_offered(self, action: str, row: Notification) -> bool:
        return row.state == State.FAILED

    @display(description="state", ordering="state")
    def state_(self, row: Notification) -> SafeString:
        return cells.state(row.get_state_display(), TONES[State(row.state)])

    @display(description="to")
    def to(self, row: Notification) -> SafeString:
        return cells.link(
            f"{row.channel.user.email} by {row.channel.get_type_display()}", cells.page_url(Channel, row.channel_id)
        )

    @display(description="session")
    def session(self, row: Notification) -> SafeString:
        return cells.link(cells.shortened(str(row.context), 13), cells.page_url(Context, row.context))

    @display(description="reason")
    def reason_(self, row: Notification) -> str:
        return cells.shortened(row.reason, 60) or str(row.last_status or "–")
