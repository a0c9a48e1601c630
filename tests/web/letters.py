"""What Parley sends to people."""

from __future__ import annotations

import re

import pytest
from django.core import mail

import apps.accounts.people.mail


@pytest.fixture
def letters(settings, monkeypatch) -> list:
    """What was sent, at once and in this thread."""
    settings.EMAIL_URL = "smtp://mail.example:25"
    monkeypatch.setattr(apps.accounts.people.mail.db, "later", lambda function, *args: function(*args))
    mail.outbox = []
    return mail.outbox


def path_in(letter, settings) -> str:
    """The path of the one link in the letter."""
    [path] = re.findall(re.escape(settings.PUBLIC_BASE_URL) + r"(/\S+)", letter.body)
    return path
