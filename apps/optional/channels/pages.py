"""Chat channels and linked chat accounts in the settings."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path

from apps.accounts.requests.quotas import QuotaExceeded, count_key_change
from apps.automation.pages.targets import AgentForm
from apps.optional.channels import channels, linking
from apps.optional.channels.models import ChatAccount, ChatChannel
from apps.optional.channels.platforms import platforms
from apps.web.resources import CODE, ResourceForm
from apps.web.settings.resources import SectionPages
from apps.web.settings.sections import SECTIONS, Section, person_of, private_view, settings_page

PREFIX = "setting-"  # of the names of a platform's settings


class ChannelForm(AgentForm):
    """A channel at the platform that was chosen before. Saved secrets are not shown."""

    class Meta(ResourceForm.Meta):
        model = ChatChannel
        fields = ("name", "agent", "takes_guests")

    def __init__(self, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        at, saved = self.instance.at, self.instance.credentials
        for one in at.settings if at else ():
            is_kept = one.is_secret and bool(saved.get(one.name))
            widget = forms.PasswordInput({"autocomplete": "off"}) if one.is_secret else forms.TextInput(CODE)
            self.fields[PREFIX + one.name] = forms.CharField(
                label=one.label,
                required=False,
                max_length=channels.MOST_SETTING,
                help_text=f"{one.help_text} Leave it empty to keep the saved one." if is_kept else one.help_text,
                widget=widget,
                initial="" if one.is_secret else saved.get(one.name, ""),
            )

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        self.instance.credentials = {
            name.removeprefix(PREFIX): value for name, value in given.items() if name.startswith(PREFIX)
        }
        return given

    def field_at(self, name: str, *inner: str) -> str | None:
        return PREFIX + inner[0] if name == "credentials" and inner else super().field_at(name, *inner)


class ChannelPages(SectionPages[ChatChannel]):
    """The form of a new channel is of the platform that the address names."""

    def show_form(self, request: HttpRequest, form: ResourceForm, **more: Any) -> HttpResponse:
        channel = form.instance
        about = {"channel": channel, "platform": channel.at, "platforms": list(platforms().values())}
        setup = [] if channel._state.adding else channels.setup_of(channel)
        address = channels.address_of(channel)
        return super().show_form(request, form, setup=setup, address=address, **about, **more)

    def saved(self, request: HttpRequest, row: ChatChannel, *, is_new: bool) -> HttpResponse:
        """What is to be done at the platform comes next."""
        return redirect(self.names["one"], row.pk) if is_new else super().saved(request, row, is_new=False)


def _new(request: HttpRequest) -> ChatChannel:
    known, asked = platforms(), request.GET.get("platform", "")
    return ChatChannel(platform=asked if asked in known else next(iter(known), ""))


def _line(channel: ChatChannel) -> str:
    state = "paused" if channel.paused_at else channel.problem or channel.identity
    return ", ".join(filter(None, [channel.get_platform_display(), str(channel.agent or ""), state]))


PAGES = ChannelPages(
    channels.CHANNELS,
    ChannelForm,
    new=_new,
    section="chat-channels",
    icon="sessions",
    about="Agents that people talk to in Slack, Microsoft Teams, Discord, Telegram or by e-mail.",
    line=_line,
)
ACCOUNTS = SectionPages(linking.CHAT_ACCOUNTS, section="chat-accounts", icon="link", line=ChatAccount.__str__)
SECTIONS.setdefault("chat-accounts", Section("Linked chats", "link", "chats"))


@private_view
def link_chat(request: HttpRequest) -> HttpResponse:
    """A POST makes a code, which is shown once."""
    code = problem = ""
    if request.method == "POST":
        try:
            count_key_change(person_of(request).principal)
            code = linking.new_code(person_of(request))
        except QuotaExceeded as exceeded:
            problem = str(exceeded)
    rows = linking.CHAT_ACCOUNTS.visible_to(person_of(request).principal)
    return settings_page(request, "chat-accounts", rows=rows, code=code, problem=problem)


urlpatterns = [
    path("settings/chat-accounts", link_chat, name="settings-chat-accounts"),
    *ACCOUNTS.row_urls("settings/chat-accounts"),
    *PAGES.urls(),
]
