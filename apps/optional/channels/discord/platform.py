"""Discord as a platform: what a channel needs, and where its parts are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from apps.optional.channels.discord import receiving, sending
from apps.optional.channels.discord.gateway import Gateway
from apps.optional.channels.discord.marking import MARKS
from apps.optional.channels.discord.sending import NotDone
from apps.optional.channels.markdown import convert
from apps.optional.channels.models import ChatChannel
from apps.optional.channels.platforms import (
    JSON,
    At,
    File,
    Heard,
    Inbound,
    Later,
    Outgoing,
    Platform,
    Received,
    Refused,
    Setting,
)
from parley.outbound import Exchange

SIGNATURE, TIME = "X-Signature-Ed25519", "X-Signature-Timestamp"
TOLERANCE_SECONDS = 300
LONGEST_TIME = 20  # digits
READS_MESSAGES = 1 << 18 | 1 << 19  # flags of an application: Message Content Intent
LONGEST_NAME = 90  # characters of a thread's
IDLE_MINUTES = 10_080  # until a thread is archived


class Discord(Platform):
    name = "discord"
    label = "Discord"
    longest = 2_000
    edit_seconds: ClassVar[float | None] = 1.5  # five edits in five seconds for each channel
    api = sending.API
    settings: ClassVar[Sequence[Setting]] = (
        Setting("bot_token", "Bot token", "Under Bot, Reset Token."),
        Setting("public_key", "Public key", "Under General Information.", is_secret=False),
    )
    setup: ClassVar[Sequence[str]] = (
        "At discord.com/developers/applications, choose New Application. Copy the public key into this form.",
        "Under Bot, turn on Message Content Intent, and choose Reset Token. Copy the token into this form, and save.",
        "Press Test here: it makes the commands, and tells Discord the address {address}, which must be reachable by "
        "https.",
        "Under OAuth2, choose the scopes bot and applications.commands, and the bot's permissions View Channels, Send "
        "Messages, Create Public Threads, Send Messages in Threads, Attach Files and Read Message History. Open "
        "the address that Discord makes of it, and choose your server.",
        "Mention the bot, write it a direct message, or use /ask.",
    )

    def may_be_genuine(self, channel: ChatChannel, headers: Mapping[str, str]) -> bool:
        return bool(channel.credentials.get("public_key")) and bool(headers.get(SIGNATURE)) and bool(headers.get(TIME))

    async def is_genuine(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        """By the application's key (Ed25519) and a time that is at most five minutes off."""
        stamp = headers.get(TIME, "")
        if not stamp.isdecimal() or len(stamp) > LONGEST_TIME or abs(now - int(stamp)) > TOLERANCE_SECONDS:
            return False
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(channel.credentials.get("public_key", "")))
            key.verify(bytes.fromhex(headers.get(SIGNATURE, "")), stamp.encode() + body)
        except (ValueError, InvalidSignature):
            return False
        return True

    def read(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes) -> Received:
        return receiving.read(body)

    def listens(self, channel: ChatChannel) -> bool:
        return True

    def listen(self, client: Exchange, channel: ChatChannel, state: JSON) -> AsyncGenerator[Heard]:
        return Gateway(client, self.api, self._token(channel), dict(state)).heard()

    def render(self, text: str) -> str:
        return convert(text, MARKS)

    def _token(self, channel: ChatChannel) -> str:
        return channel.credentials.get("bot_token", "")

    async def open_thread(self, client: Exchange, channel: ChatChannel, event: Inbound) -> Inbound:
        """In a server's channel, a thread at the message. Elsewhere, the channel is the thread."""
        token = self._token(channel)
        if event.message.startswith(receiving.OF_COMMAND):
            event = replace(event, message=f"{event.thread}-{await self._shown(client, event)}")
        if event.place == receiving.DIRECT:
            return event
        found = await sending.ask(client, self.api, token, "GET", f"/channels/{event.thread}")
        if found["type"] not in sending.WITH_THREADS:
            return event
        message = event.message.partition("-")[2]
        name = " ".join(event.text.split())[:LONGEST_NAME] or channel.name[:LONGEST_NAME]
        about = {"name": name, "auto_archive_duration": IDLE_MINUTES}
        try:
            path = f"/channels/{event.thread}/messages/{message}/threads"
            await sending.ask(client, self.api, token, "POST", path, about)
        except NotDone as error:
            if error.code != sending.HAS_THREAD:
                raise
        return replace(event, thread=message)  # the thread has the id of its message

    async def _shown(self, client: Exchange, event: Inbound) -> str:
        """The id of what Discord shows of a command. Raises Later until it does, Refused."""
        path = f"/webhooks/{event.message.removeprefix(receiving.OF_COMMAND)}/messages/@original"
        try:
            return str((await sending.ask(client, self.api, "", "GET", path))["id"])
        except NotDone as error:
            if error.code in sending.NOT_YET:
                raise Later("Discord does not show the command yet.") from None
            raise

    async def show_typing(self, client: Exchange, at: At) -> None:
        await sending.ask(client, self.api, self._token(at.channel), "POST", f"/channels/{at.thread}/typing")

    async def post(self, client: Exchange, at: At, message: Outgoing) -> str:
        path, fields = f"/channels/{at.thread}/messages", sending.new_message(message)
        posted = await sending.ask(client, self.api, self._token(at.channel), "POST", path, fields)
        return f"{at.thread}-{posted['id']}"

    async def edit(self, client: Exchange, at: At, posted: str, message: Outgoing) -> None:
        place, _, key = posted.partition("-")
        path, fields = f"/channels/{place}/messages/{key}", sending.message_of(message)
        await sending.ask(client, self.api, self._token(at.channel), "PATCH", path, fields)

    async def upload(self, client: Exchange, at: At, name: str, media_type: str, content: bytes) -> str:
        return await sending.upload(client, self.api, self._token(at.channel), at, name, media_type, content)

    async def download(self, client: Exchange, channel: ChatChannel, file: File) -> bytes:
        return await sending.download(client, file.where)

    async def connect(self, client: Exchange, channel: ChatChannel, address: str) -> str:
        """Discord calls the address while it is told it: a process of this installation must serve."""
        token = self._token(channel)
        about = await sending.ask(client, self.api, token, "GET", "/applications/@me")
        if about["verify_key"] != channel.credentials.get("public_key"):
            raise Refused("The public key is another application's than the bot token.")
        if not int(about.get("flags") or 0) & READS_MESSAGES:
            raise Refused("Turn on Message Content Intent under Bot, so that the bot can read its threads.")
        await sending.ask(client, self.api, token, "PUT", f"/applications/{about['id']}/commands", receiving.COMMANDS)
        given = {"interactions_endpoint_url": address}
        await sending.ask(client, self.api, token, "PATCH", "/applications/@me", given)
        return str((about.get("bot") or {}).get("username") or about["name"])
