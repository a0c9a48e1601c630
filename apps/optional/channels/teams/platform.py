"""Microsoft Teams as a platform: what a channel needs, and where its parts are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import ClassVar

from apps.optional.channels.models import ChatChannel
from apps.optional.channels.platforms import At, Button, File, Outgoing, Platform, Received, Setting, parsed
from apps.optional.channels.teams import proving, receiving, sending
from apps.optional.channels.teams.marking import html_of
from parley.outbound import Exchange

MOST_CARD_BYTES = 24 * 1024  # Teams takes 28 kB; the buttons are in it, too


@cache
def keys_of(metadata: str) -> proving.Keys:
    return proving.Keys(metadata)


class Teams(Platform):
    name = "teams"
    label = "Microsoft Teams"
    longest = 12_000  # 40 kB in UTF-16, with what is around it
    edit_seconds: ClassVar[float | None] = 3.0  # for each conversation: 1,800 calls an hour
    metadata = proving.METADATA
    login = sending.LOGIN
    settings: ClassVar[Sequence[Setting]] = (
        Setting("app_id", "App ID", "Of the Azure bot, under Configuration: Microsoft App ID.", is_secret=False),
        Setting(
            "tenant_id", "Tenant ID", "Under Configuration, too: App Tenant ID. Empty for a bot of many tenants.",
            is_secret=False, is_needed=False,
        ),
        Setting("client_secret", "Client secret", "Its value, from Manage Password, New client secret."),
    )  # fmt: skip
    setup: ClassVar[Sequence[str]] = (
        "In the Azure portal, create an Azure Bot with the type Single Tenant.",
        "Under Configuration, give {address} as messaging endpoint. Copy the app ID and the tenant ID into this form.",
        "Choose Manage Password, New client secret. Copy its value into this form, and save.",
        "Under Channels, add Microsoft Teams.",
        "At dev.teams.microsoft.com/apps, make an app with this bot, for personal, team and group chat use, that can "
        "upload and download files. To read all messages of its threads, give it the permissions "
        "ChannelMessage.Read.Group and ChatMessage.Read.Chat. Publish it, or upload it to Teams.",
        "Press Test here. Then write to the bot, or mention it. In a chat, /new begins a new session.",
    )

    def may_be_genuine(self, channel: ChatChannel, headers: Mapping[str, str]) -> bool:
        return bool(channel.credentials.get("app_id")) and bool(proving.token_in(headers.get("Authorization", "")))

    async def is_genuine(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        """By a token of the Bot Framework for this bot and the service address that the activity has. Raises NoKeys."""
        token, app = proving.token_in(headers.get("Authorization", "")), channel.credentials.get("app_id", "")
        return await proving.is_genuine(keys_of(self.metadata), token, app, parsed(body), now)

    def read(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes) -> Received:
        return receiving.read(body)

    def render(self, text: str) -> str:
        return html_of(text)

    def fits(self, text: str) -> bool:
        """As a message, and as a card."""
        card = sending.card_of(Outgoing(text, "", [Button("", "")]))
        return super().fits(text) and len(json.dumps(card, ensure_ascii=False).encode()) <= MOST_CARD_BYTES

    async def show_typing(self, client: Exchange, at: At) -> None:
        await sending.ask(client, self.login, at, "POST", "", {"type": "typing"})

    async def post(self, client: Exchange, at: At, message: Outgoing) -> str:
        posted = await sending.ask(client, self.login, at, "POST", "", sending.activity_of(message))
        return str(posted.get("id", ""))

    async def edit(self, client: Exchange, at: At, posted: str, message: Outgoing) -> None:
        await sending.ask(client, self.login, at, "PUT", f"/{posted}", {"id": posted, **sending.activity_of(message)})

    async def upload(self, client: Exchange, at: At, name: str, media_type: str, content: bytes) -> str:
        image = sending.image_of(name, media_type, content)
        return str((await sending.ask(client, self.login, at, "POST", "", image)).get("id", ""))

    async def download(self, client: Exchange, channel: ChatChannel, file: File) -> bytes:
        return await sending.download(client, self.login, channel, file.where)

    async def connect(self, client: Exchange, channel: ChatChannel, address: str) -> str:
        await sending.token_of(client, self.login, channel)
        return f"the bot {channel.credentials.get('app_id', '')}"
