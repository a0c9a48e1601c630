"""E-mail as a platform: what a channel needs, and where its parts are."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import ClassVar

from django.conf import settings

from apps.accounts.secrets import webhook_signatures
from apps.optional.channels.mail import receiving, sending
from apps.optional.channels.mail.mailbox import Mailbox
from apps.optional.channels.mail.marking import with_choices
from apps.optional.channels.models import ChatChannel
from apps.optional.channels.platforms import JSON, At, File, Heard, Outgoing, Platform, Received, Refused, Setting
from parley.outbound import Exchange

SCHEME = webhook_signatures.HMAC
OPTIONS = {"header": "X-Signature", "timestamp_header": "X-Timestamp"}


class Mail(Platform):
    name = "mail"
    label = "E-mail"
    longest = 200_000
    most_bytes: ClassVar[int] = 25 * 1024 * 1024
    has_buttons: ClassVar[bool] = False
    listen_seconds: ClassVar[float | None] = 60.0
    settings: ClassVar[Sequence[Setting]] = (
        Setting("address", "Address", "The agent's own, such as agent@example.org.", is_secret=False),
        Setting(
            "checked_by", "Checked by",
            "The name at the beginning of Authentication-Results in letters that your mail server got. Letters without "
            "its dmarc=pass are dropped, because anybody can write a sender's name.",
            is_secret=False,
        ),
        Setting(
            "imap_server", "IMAP server", "Such as imap.example.org. Its INBOX is read each minute, and never changed.",
            is_secret=False, is_needed=False, gets="imap_password",
        ),
        Setting("imap_user", "IMAP user", "If it is not the address.", is_secret=False, is_needed=False),
        Setting(
            "imap_password", "IMAP password", "Better one for this program alone. Another server needs it again.",
            is_needed=False,
        ),
        Setting(
            "secret", "Secret", "Without a mailbox: it signs what your mail server hands over. At least 16 characters.",
            is_needed=False,
        ),
    )  # fmt: skip
    setup: ClassVar[Sequence[str]] = (
        "Enter the mailbox of the address: its IMAP server and password. Letters that come from now on are answered.",
        "Or have the mail server post each letter for the address, as it came (message/rfc822), to {address}. "
        "Two headers sign it: X-Timestamp, the seconds since 1970, and X-Signature, the HMAC-SHA256 in hexadecimal of "
        "the timestamp, a dot and the letter, with the secret.",
        "Press Test here. It opens the mailbox, and says whether letters can go out, which needs EMAIL_URL.",
        "Write a letter to the address.",
    )

    def _secrets(self, channel: ChatChannel) -> list[str]:
        return [channel.credentials.get("secret", "")]

    def may_be_genuine(self, channel: ChatChannel, headers: Mapping[str, str]) -> bool:
        return webhook_signatures.may_be_signed(SCHEME, self._secrets(channel), headers, OPTIONS)

    async def is_genuine(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        return webhook_signatures.is_signed(SCHEME, self._secrets(channel), headers, body, now, OPTIONS)

    def read(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes) -> Received:
        return receiving.read(body, channel.credentials.get("checked_by", ""))

    def listens(self, channel: ChatChannel) -> bool:
        return bool(channel.credentials.get("imap_server") and channel.credentials.get("imap_password"))

    def listen(self, client: Exchange, channel: ChatChannel, state: JSON) -> AsyncGenerator[Heard]:
        return self._mailbox(channel).letters(state, channel.credentials.get("checked_by", ""))

    def _mailbox(self, channel: ChatChannel) -> Mailbox:
        """Raises Refused."""
        return Mailbox.of(channel.credentials, self.most_bytes)

    def render(self, text: str) -> str:
        return text

    def _sender(self, at: At) -> str:
        return at.channel.credentials.get("address", "")

    async def post(self, client: Exchange, at: At, message: Outgoing) -> str:
        text = with_choices(message.text, message.buttons)
        return await sending.send(sending.letter(self._sender(at), at, message.key, message.subject, text))

    async def upload(self, client: Exchange, at: At, name: str, media_type: str, content: bytes) -> str:
        if len(content) > self.most_bytes:
            raise Refused("Mail servers take no file of this size.")
        key = hashlib.sha256(content + name.encode() + at.thread.encode()).hexdigest()[:32]
        made = sending.letter(self._sender(at), at, f"file-{key}", name, name)
        made.attach(name, content, media_type)
        return await sending.send(made)

    async def download(self, client: Exchange, channel: ChatChannel, file: File) -> bytes:
        return base64.b64decode(file.where)

    async def connect(self, client: Exchange, channel: ChatChannel, address: str) -> str:
        if not settings.EMAIL_URL:
            raise Refused("This installation sends no letters. Set EMAIL_URL.")
        if self.listens(channel):
            await self._mailbox(channel).check()
        elif not channel.credentials.get("secret"):
            raise Refused("Enter the mailbox, or a secret by which a mail server hands letters over.")
        elif problem := webhook_signatures.secret_problem(SCHEME, channel.credentials["secret"]):
            raise Refused(f"The secret: {problem}")
        return channel.credentials.get("address", "")
