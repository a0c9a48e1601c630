"""Slack as a platform: what a channel needs, and where its parts are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from django.conf import settings as installation

from apps.accounts.secrets import webhook_signatures
from apps.optional.channels.markdown import convert
from apps.optional.channels.models import ChatChannel
from apps.optional.channels.platforms import At, File, Outgoing, Platform, Received, Setting
from apps.optional.channels.slack import receiving, sending
from apps.optional.channels.slack.marking import MARKS
from parley.outbound import Exchange

SCHEME = webhook_signatures.SLACK
SCOPES = (
    "app_mentions:read, channels:history, chat:write, files:read, files:write, groups:history, im:history, "
    "reactions:read"
)
EVENTS = "app_mention, message.channels, message.groups, message.im, reaction_added"


class Slack(Platform):
    name = "slack"
    label = "Slack"
    longest = sending.LONGEST_BLOCK
    edit_seconds: ClassVar[float | None] = 1.5  # chat.update: about 50 a minute
    api = installation.SLACK_API_URL
    settings: ClassVar[Sequence[Setting]] = (
        Setting("bot_token", "Bot token", "It begins with xoxb-, under OAuth & Permissions."),
        Setting("signing_secret", "Signing secret", "Under Basic Information, App Credentials."),
    )
    setup: ClassVar[Sequence[str]] = (
        "At api.slack.com/apps, choose Create New App, From scratch.",
        f"Under OAuth & Permissions, add these bot token scopes: {SCOPES}. Then choose Install to Workspace.",
        "Copy the bot token and the signing secret into this form, and save.",
        "Under Event Subscriptions, turn events on and give the request URL {address}. Subscribe to these bot events: "
        f"{EVENTS}.",
        "Under Interactivity & Shortcuts, turn it on and give the same request URL.",
        "Under App Home, let people send messages in the messages tab.",
        "Press Test here. Then mention the app in a channel that you invited it to, or write to it.",
    )

    def may_be_genuine(self, channel: ChatChannel, headers: Mapping[str, str]) -> bool:
        return webhook_signatures.may_be_signed(SCHEME, [channel.credentials.get("signing_secret", "")], headers)

    async def is_genuine(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        """By the signing secret and a time that is at most five minutes off."""
        keys = [channel.credentials.get("signing_secret", "")]
        return webhook_signatures.is_signed(SCHEME, keys, headers, body, now)

    def read(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes) -> Received:
        return receiving.read(headers.get("Content-Type", ""), body)

    def render(self, text: str) -> str:
        return convert(text, MARKS)

    def _token(self, channel: ChatChannel) -> str:
        return channel.credentials.get("bot_token", "")

    async def post(self, client: Exchange, at: At, message: Outgoing) -> str:
        about = {"channel": at.place, **({"thread_ts": at.thread} if at.thread else {})}
        fields = {**about, **sending.message_of(message)}
        answer = await sending.ask(client, self._token(at.channel), "chat.postMessage", self.api, **fields)
        return str(answer["ts"])

    async def edit(self, client: Exchange, at: At, posted: str, message: Outgoing) -> None:
        fields = {"channel": at.place, "ts": posted, **sending.message_of(message)}
        await sending.ask(client, self._token(at.channel), "chat.update", self.api, **fields)

    async def upload(self, client: Exchange, at: At, name: str, media_type: str, content: bytes) -> str:
        await sending.upload(client, self._token(at.channel), self.api, at.place, at.thread, name, content)
        return ""

    async def download(self, client: Exchange, channel: ChatChannel, file: File) -> bytes:
        return await sending.download(client, self._token(channel), self.api, file)

    async def connect(self, client: Exchange, channel: ChatChannel, address: str) -> str:
        answer = await sending.ask(client, self._token(channel), "auth.test", self.api)
        return f"{answer.get('user', '')} in {answer.get('team', '')}"
