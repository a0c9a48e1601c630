"""Letters to people: in the background, so that no answer takes longer because an account exists.

What a letter says stands where it is sent: that of a forgotten password in `pages.passwords`.
"""

from __future__ import annotations

import logging

from django.conf import settings
from django.core.mail import send_mail

from parley import db

log = logging.getLogger("parley.mail")


def can_send() -> bool:
    """Is there a mail server (`EMAIL_URL`)? Without one, pages tell people to ask an operator."""
    return bool(settings.EMAIL_URL)


def send_later(subject: str, text: str, address: str) -> None:
    """Send a letter. Failures are logged."""
    db.later(_send, subject, f"Hello,\n\n{text}\n", address)


def tell_of_change(address: str, sentence: str) -> None:
    """Tell a person that the way they sign in was changed, in case it was not they."""
    if can_send():
        advice = f"If it was not you, choose a new password: {settings.PUBLIC_BASE_URL}/forgotten"
        send_later("Your Parley account was changed", f"{sentence}\n\n{advice}", address)


def _send(subject: str, text: str, address: str) -> None:
    try:
        send_mail(subject, text, None, [address])
    except OSError as error:  # that of SMTP too
        log.warning("a letter to a person was not sent: %s", type(error).__name__)
