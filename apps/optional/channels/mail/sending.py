"""Letters of the agent, by the installation's mail server."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives

from apps.optional.channels.mail.marking import html_of
from apps.optional.channels.platforms import At, Later

LONGEST_SUBJECT = 150


def letter(sender: str, at: At, key: str, subject: str, text: str) -> EmailMultiAlternatives:
    """A reply in the thread. `key` makes its Message-ID, so that mail programs recognize a repeated one."""
    host = urlsplit(settings.PUBLIC_BASE_URL).hostname or "localhost"
    headers = {
        "Message-ID": f"<chat-{at.channel.pk.hex}-{key}@{host}>",
        "In-Reply-To": at.thread,
        "References": at.thread,
        "Auto-Submitted": "auto-replied",  # RFC 3834: nobody's holiday note answers it
    }
    line = " ".join(subject.split())[:LONGEST_SUBJECT] or at.channel.name
    made = EmailMultiAlternatives(f"Re: {line}", text, sender, [at.place], headers=headers)
    made.attach_alternative(html_of(text), "text/html")
    return made


async def send(made: EmailMultiAlternatives) -> str:
    """Returns its Message-ID. Raises Later."""
    try:
        await asyncio.to_thread(made.send)
    except OSError as error:  # that of SMTP too, whose text may quote the server
        raise Later(f"The mail server did not take it: {type(error).__name__}.") from None
    return str(made.extra_headers["Message-ID"])
