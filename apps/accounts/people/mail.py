"""Sends letters to people, in the background: no answer takes longer because an account exists.

What they say is in `templates/accounts/letters`.
"""

from __future__ import annotations

import logging

from django.conf import settings
from django.core.mail import send_mail
from django.template.loader import render_to_string

from parley import db

log = logging.getLogger("parley.mail")


def can_send() -> bool:
    """Is there a mail server (`EMAIL_URL`)? Without one, pages tell people to ask an operator."""
    return bool(settings.EMAIL_URL)


def send_later(letter: str, address: str, **context: object) -> None:
    """Send a letter, whose template begins with its subject. Failures are logged."""
    context["forgotten"] = f"{settings.PUBLIC_BASE_URL}/forgotten"
    subject, _, text = render_to_string(f"accounts/letters/{letter}.txt", context).partition("\n\n")
    db.later(_send, subject, text, address)


def tell_of_change(address: str, sentence: str) -> None:
    """Tell a person that the way they sign in was changed, in case it was not they."""
    if can_send():
        send_later("changed", address, sentence=sentence)


def _send(subject: str, text: str, address: str) -> None:
    try:
        send_mail(subject, text, None, [address])
    except OSError as error:  # that of SMTP too
        log.warning("a letter to a person was not sent: %s", type(error).__name__)
