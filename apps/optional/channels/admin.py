"""Admin pages of chat channels, linked accounts, and what comes in. They show no secret and no text."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import display
from django.utils.safestring import SafeString

from apps.operators import columns
from apps.operators.actions import ActingAdmin
from apps.optional.channels.channels import CHANNELS, PAUSE, RESUME, TEST
from apps.optional.channels.linking import CHAT_ACCOUNTS, UNLINK
from apps.optional.channels.models import ChatAccount, ChatChannel, ChatEvent
from parley.faces import cells
from parley.faces.admin import MenuItem, ReadOnlyAdmin
from parley.faces.cells import Tone


@admin.register(ChatChannel)
class ChatChannelAdmin(ActingAdmin, ReadOnlyAdmin):
    """Operators test, pause and resume channels. Their owners edit them."""

    menu = MenuItem("Plans", 7, "forum")
    resource = CHANNELS
    acts = (TEST, PAUSE, RESUME)
    list_display = ("name", "state", "platform", "owner", "agent", "identity", "last_event_at")
    list_filter = ("platform", ("paused_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "owner__email", "agent__slug")
    ordering = ("-created_at",)
    fields = (
        "name", "state", "platform", "owner", "agent", "takes_guests", "identity", "problem", "last_event_at",
        "created_at", columns.list_link("events", ChatEvent, "channel__id__exact"),
    )  # fmt: skip
    select_related = ("owner", "agent")

    @display(description="state")
    def state(self, channel: ChatChannel) -> SafeString:
        if channel.paused_at:
            return cells.state("paused", Tone.STOPPED)
        return cells.state("failing", Tone.FAILED) if channel.problem else cells.state("active", Tone.WORKING)


@admin.register(ChatAccount)
class ChatAccountAdmin(ActingAdmin, ReadOnlyAdmin):
    menu = MenuItem("Plans", 8, "link")
    resource = CHAT_ACCOUNTS
    acts = (UNLINK,)
    operate_permission = "chats.change_chatchannel"
    list_display = ("user", "channel", "external_id", "created_at")
    search_fields = ("user__email", "external_id")
    ordering = ("-created_at",)
    fields = list_display
    select_related = ("user", "channel")


@admin.register(ChatEvent)
class ChatEventAdmin(ReadOnlyAdmin):
    menu = MenuItem("Plans", 9, "inbox")
    list_display = ("received_at", "channel", "event_id", "done_at", "tries", "problem")
    list_filter = (("done_at", admin.EmptyFieldListFilter),)
    ordering = ("-received_at",)
    link_filters = {"channel__id__exact": ("channel", ChatChannel)}
    fields = list_display
    select_related = ("channel",)
