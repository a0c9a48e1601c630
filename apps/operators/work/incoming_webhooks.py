"""Admin pages of incoming webhooks and their events."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import display
from django.utils.safestring import SafeString
from unfold.dataclasses import ActionDialog

from apps.accounts.resources import NotNeeded
from apps.automation import incoming
from apps.automation.models import IncomingEvent, IncomingWebhook
from apps.operators import columns
from apps.operators.actions import ActingAdmin, button, list_action
from apps.operators.bulk import Doing, RowAction, register
from console import cells
from console.admin import ReadOnlyAdmin, column, json_cell, page_link, related_cell, state_cell, time_cell
from console.cells import Tone

CHANGE = "automation.change_incomingwebhook"
EVENT_TONES = {
    IncomingEvent.State.WAITING: Tone.QUEUED,
    IncomingEvent.State.STARTED: Tone.DONE,
    IncomingEvent.State.IGNORED: Tone.STOPPED,
    IncomingEvent.State.FAILED: Tone.FAILED,
}


def _pause(webhook: IncomingWebhook, doing: Doing) -> str:
    if webhook.paused_at is not None and not doing.again:
        raise NotNeeded("It is paused already.")
    incoming.pause(webhook)
    return "Paused."


def _resume(webhook: IncomingWebhook, doing: Doing) -> str:
    if webhook.paused_at is None and not doing.again:
        raise NotNeeded("It is not paused.")
    incoming.resume(webhook)
    return "Resumed."


def _send_again(event: IncomingEvent, doing: Doing) -> str:
    if doing.again:
        raise NotNeeded("It may have been sent already. See the webhook's events.")
    incoming.send_again(event)
    return "Sent again."


def dialog(title: str, description: str, button_text: str) -> ActionDialog:
    return {"title": title, "description": description, "form_submit_text": button_text}


PAUSE = register(RowAction("webhook.pause", "Pause", IncomingWebhook, CHANGE, _pause, ("agent",)))
RESUME = register(RowAction("webhook.resume", "Resume", IncomingWebhook, CHANGE, _resume, ("agent",)))
SEND_AGAIN = register(RowAction("event.again", "Send again", IncomingEvent, CHANGE, _send_again, ("webhook",)))


@admin.register(IncomingWebhook)
class IncomingWebhookAdmin(ActingAdmin, ReadOnlyAdmin):
    """Operators pause and resume webhooks. Their owners edit them; their secrets are not shown."""

    list_display = (
        page_link("name"),
        "state",
        related_cell("owner", text="email"),
        related_cell("agent", text="slug"),
        "scheme",
        time_cell("last_event_at", "last event"),
        columns.created,
    )
    list_filter = ("scheme", ("paused_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "owner__email", "agent__slug")
    ordering = ("-created_at",)
    actions = ("pause_selected", "resume_selected")
    fields = (
        "name", "state", related_cell("owner", text="email"), related_cell("agent", text="slug"), "scheme",
        json_cell("signature"), "text", json_cell("inputs"), "only_if", time_cell("old_secret_until"),
        time_cell("last_event_at", "last event"), columns.created,
        column("events", lambda row: cells.link("events", cells.list_url(IncomingEvent, webhook__id__exact=row.pk))),
    )  # fmt: skip
    select_related = ("owner", "agent")
    operate_permission = CHANGE
    actions_detail = ("pause", "resume")

    pause = button(
        PAUSE,
        icon="pause",
        url_path="pause",
        dialog=dialog("Pause this webhook?", "Its events are still accepted, but start nothing.", "Pause"),
    )
    resume = button(
        RESUME,
        icon="play_arrow",
        url_path="resume",
        dialog=dialog("Resume this webhook?", "Events that came during the pause start nothing.", "Resume"),
    )
    pause_selected = list_action(PAUSE)
    resume_selected = list_action(RESUME)

    def is_offered(self, action: str, row: IncomingWebhook) -> bool:
        return {"pause": row.paused_at is None, "resume": row.paused_at is not None}.get(action, True)

    @display(description="state")
    def state(self, webhook: IncomingWebhook) -> SafeString:
        return cells.state("paused", Tone.STOPPED) if webhook.paused_at else cells.state("active", Tone.WORKING)


@admin.register(IncomingEvent)
class IncomingEventAdmin(ActingAdmin, ReadOnlyAdmin):
    list_display = (
        page_link("received_at", "received"),
        state_cell("state", EVENT_TONES),
        related_cell("webhook", text="name"),
        "kind",
        columns.task,
        "reason",
    )
    list_filter = ("state", "is_repeat")
    search_fields = ("webhook__name", "event_id")
    ordering = ("-received_at",)
    link_filters = {"webhook__id__exact": ("webhook", IncomingWebhook)}
    actions = ("again_selected",)
    fields = (
        time_cell("received_at", "received"), state_cell("state", EVENT_TONES), related_cell("webhook", text="name"),
        "event_id", "kind", columns.task, "reason", "is_repeat", json_cell("body"), json_cell("headers"), "text",
        json_cell("inputs"),
    )  # fmt: skip
    select_related = ("webhook", "task")
    operate_permission = CHANGE
    actions_detail = ("again",)

    again = button(
        SEND_AGAIN,
        icon="replay",
        url_path="again",
        dialog=dialog("Send this event again?", "It starts work as the webhook's owner.", "Send again"),
    )
    again_selected = list_action(SEND_AGAIN)
