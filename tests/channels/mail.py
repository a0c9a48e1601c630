"""A stand-in of a mail server that hands letters over, and of the readers of the agent's letters."""

from __future__ import annotations

import hmac
import time
from email.message import EmailMessage
from typing import Any

from django.core import mail

from tests.channels.standin import JSON, Call, Shown, StandIn

SECRET = "mail-signing-secret"


class MailStandIn(StandIn):
    name = "mail"
    credentials = {"address": "agent@example.org", "secret": SECRET, "checked_by": "mx.example.org"}
    has = frozenset({"files"})
    pieces_of_long = 1
    identity = "agent@example.org"

    def attach(self, monkeypatch: Any) -> None:
        monkeypatch.setattr("django.conf.settings.EMAIL_URL", "smtp://mail.example:25")
        mail.outbox = []

    def person(self, name: str) -> str:
        return f"{name}@elsewhere.example"

    def posts(self, call: Call) -> bool:
        return False

    def answer(self, call: Call) -> JSON | bytes:
        return b""

    @property
    def shown(self) -> list[Shown]:
        return [
            Shown(one.extra_headers["Message-ID"], one.extra_headers["References"], one.body, [], _file_of(one))
            for one in mail.outbox
        ]

    @shown.setter
    def shown(self, _: object) -> None:
        pass

    def sign(self, body: bytes, secret: str = SECRET) -> dict[str, str]:
        stamp = str(int(time.time()))
        digest = hmac.digest(secret.encode(), f"{stamp}.".encode() + body, "sha256").hex()
        return {"Content-Type": "message/rfc822", "X-Timestamp": stamp, "X-Signature": digest}

    def letter(self, person: str, text: str, **headers: str) -> EmailMessage:
        made = EmailMessage()
        made["Authentication-Results"] = "mx.example.org; dmarc=pass header.from=elsewhere.example"
        made["From"] = f"{person.title()} <{self.person(person)}>"
        made["To"] = "agent@example.org"
        for name, value in headers.items():
            del made[name.replace("_", "-")]
            made[name.replace("_", "-")] = value
        made.set_content(f"{text}\n\nOn Monday, the agent wrote:\n> before\n")
        return made

    def send(self, made: EmailMessage) -> tuple[dict[str, str], bytes]:
        body = made.as_bytes()
        return self.sign(body), body

    def message(self, person: str, text: str, *, thread: str = "", key: str = "", file: bool = False, place: str = ""):
        about = {"References": f"{thread} <other@example.org>"} if thread else {}
        made = self.letter(person, text, Message_ID=f"<{key or self.number()}@elsewhere.example>", **about)
        if file:
            made.add_attachment(b"content of the file", maintype="text", subtype="plain", filename="notes.txt")
        return self.send(made)

    def thread_of(self, key: str) -> str:
        return f"<{key}@elsewhere.example>"

    def unsigned(self, request):
        headers, body = request
        return {**headers, **self.sign(body, "another-secret-of-it")}, body


def _file_of(letter: Any) -> bytes | None:
    return next((one.content.encode() for one in letter.attachments), None)
