"""Letters: who sent them, what they say, and to which thread they belong (RFC 5322, RFC 3834)."""

from __future__ import annotations

import base64
import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage, MIMEPart
from email.utils import parseaddr

from django.utils.html import strip_tags

from apps.optional.channels.mail.proving import proven_sender
from apps.optional.channels.platforms import File, Inbound, Received

QUOTED = re.compile(r"^(>.*|On .{5,200} wrote:|Am .{5,200} schrieb .*:|-{2,} ?Original Message ?-{2,})$")
IDENTIFIER = re.compile(r"<[^<>\s]+>")
MOST_FILES = 20


def read(body: bytes, checked_by: str) -> Received:
    """Letters that are not proven to be from their sender are dropped, and so is what machines send.

    `checked_by`: whose `Authentication-Results` count. Raises ValueError.
    """
    letter = email.message_from_bytes(body, policy=email.policy.default)
    assert isinstance(letter, EmailMessage)
    key = _identifier(letter.get("Message-ID", ""))
    if not key or "From" not in letter:
        raise ValueError("It is no letter.")
    sender = proven_sender(letter, checked_by)
    if not sender or _is_by_machine(letter):
        return Received()
    before = IDENTIFIER.findall(f"{letter.get('References', '')} {letter.get('In-Reply-To', '')}")
    text = _text(letter)
    subject = "" if before else " ".join(str(letter.get("Subject", "")).split())
    said = Inbound(
        kind="message",
        event_id=key,
        person=sender,
        name=parseaddr(str(letter["From"]))[0] or sender,
        place=sender,
        thread=before[0] if before else key,
        message=key,
        text="\n\n".join(filter(None, [subject, text])),
        files=list(_files(letter)),
    )
    return Received([said])


def _is_by_machine(letter: EmailMessage) -> bool:
    """An automatic answer to an automatic answer would have no end."""
    is_automatic = str(letter.get("Auto-Submitted", "no")).strip().lower() != "no"
    is_bulk = str(letter.get("Precedence", "")).strip().lower() in ("bulk", "list", "junk")
    return is_automatic or is_bulk or "List-Id" in letter


def _identifier(text: str) -> str:
    found = IDENTIFIER.search(str(text))
    return found[0] if found else ""


def _text(letter: EmailMessage) -> str:
    """Without what is quoted below it."""
    part = letter.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    text = _decoded(part)
    if part.get_content_type() == "text/html":
        text = strip_tags(text)
    lines = text.replace("\r\n", "\n").split("\n")
    first = next((at for at, line in enumerate(lines) if QUOTED.match(line.strip())), len(lines))
    return "\n".join(lines[:first]).strip()


def _decoded(part: MIMEPart) -> str:
    """A charset that nobody knows is read as UTF-8."""
    try:
        return str(part.get_content())
    except (LookupError, UnicodeError):
        content = part.get_payload(decode=True)
        return content.decode(errors="replace") if isinstance(content, bytes) else ""


def _files(letter: EmailMessage) -> Iterator[File]:
    """With their content: nobody can be asked for it later."""
    for part, _ in zip(letter.iter_attachments(), range(MOST_FILES), strict=False):
        content = part.get_payload(decode=True)
        if isinstance(content, bytes):
            where = base64.b64encode(content).decode()
            yield File(part.get_filename() or "file", where, part.get_content_type(), len(content))
