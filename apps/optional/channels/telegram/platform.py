"""Telegram as a platform: what a channel needs, and where its parts are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import ClassVar

from django.utils.crypto import constant_time_compare

from apps.optional.channels.markdown import convert
from apps.optional.channels.models import ChatChannel
from apps.optional.channels.platforms import At, File, Inbound, Outgoing, Platform, Received, Refused, Setting
from apps.optional.channels.telegram import receiving, sending
from apps.optional.channels.telegram.marking import MARKS
from parley.outbound import Exchange

HEADER = "X-Telegram-Bot-Api-Secret-Token"
UPDATES = ["message", "edited_message", "callback_query", "message_reaction"]


class Telegram(Platform):
    name = "telegram"
    label = "Telegram"
    longest = 4_096
    edit_seconds: ClassVar[float | None] = 3.0  # in groups: 20 messages a minute
    api = sending.API
    settings: ClassVar[Sequence[Setting]] = (
        Setting("bot_token", "Bot token", "BotFather shows it, such as 123456:ABC."),
    )
    setup: ClassVar[Sequence[str]] = (
        "In Telegram, write /newbot to @BotFather, and answer its questions.",
        "Copy the token into this form, and save.",
        "Press Test here: it tells Telegram the address {address}, which must be reachable by https.",
        "Write to the bot. In a group, mention it or reply to it. /new begins a new session.",
    )

    def secret(self, channel: ChatChannel) -> str:
        """What Telegram sends with each update: nobody has to make or copy it."""
        made = f"parley {channel.pk} {channel.credentials.get('bot_token', '')}"
        return hashlib.sha256(made.encode()).hexdigest()

    def may_be_genuine(self, channel: ChatChannel, headers: Mapping[str, str]) -> bool:
        return bool(self._token(channel)) and constant_time_compare(headers.get(HEADER, ""), self.secret(channel))

    async def is_genuine(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        return self.may_be_genuine(channel, headers)

    def read(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes) -> Received:
        return receiving.read(body, channel.identity.removeprefix("@"))

    def render(self, text: str) -> str:
        return convert(text, MARKS)

    def _token(self, channel: ChatChannel) -> str:
        return channel.credentials.get("bot_token", "")

    async def post(self, client: Exchange, at: At, message: Outgoing) -> str:
        fields = {**sending.place_of(at), **sending.message_of(message)}
        sent = await sending.ask(client, self.api, self._token(at.channel), "sendMessage", **fields)
        return str(sent["message_id"])

    async def edit(self, client: Exchange, at: At, posted: str, message: Outgoing) -> None:
        await sending.edit(client, self.api, self._token(at.channel), at, posted, message)

    async def upload(self, client: Exchange, at: At, name: str, media_type: str, content: bytes) -> str:
        return await sending.upload(client, self.api, self._token(at.channel), at, name, content)

    async def download(self, client: Exchange, channel: ChatChannel, file: File) -> bytes:
        return await sending.download(client, self.api, self._token(channel), file.where)

    async def acknowledge(self, client: Exchange, channel: ChatChannel, event: Inbound) -> None:
        """The button stops turning. One that was pressed too long ago needs none."""
        query = event.event_id.partition(" ")[2]
        try:
            await sending.ask(client, self.api, self._token(channel), "answerCallbackQuery", callback_query_id=query)
        except Refused:
            return

    async def connect(self, client: Exchange, channel: ChatChannel, address: str) -> str:
        token = self._token(channel)
        bot = await sending.ask(client, self.api, token, "getMe")
        about = {"url": address, "secret_token": self.secret(channel), "allowed_updates": UPDATES}
        await sending.ask(client, self.api, token, "setWebhook", **about)
        return f"@{bot.get('username', '')}"
