"""People, browsers and conversations for tests of pages."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.core import mail
from django.test import AsyncClient, Client

from apps.accounts.models import User
from apps.accounts.people import mail as sending
from apps.agents.registration import register_hosted
from tests.clients import telling


@pytest.fixture
def browser_of():
    def opened(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return opened


@pytest.fixture
def ada_browser(ada, browser_of):
    return browser_of(ada)


@pytest.fixture
def bob_browser(bob, browser_of):
    return browser_of(bob)


@pytest.fixture
async def ada_at_work(ada):
    client = AsyncClient()
    await client.aforce_login(ada)
    return client


@pytest.fixture
def report(db):
    return register_hosted("report", "examples.report.agent:Report")


@pytest.fixture
def hello(db):
    return register_hosted("hello", "examples.agents.hello:Hello")


@pytest.fixture
def finished(ada, echo):
    return telling.finished(
        ada, echo, {"notes.md": telling.text("# Notes\n", "text/markdown"), "dot.png": telling.picture()}
    )


@pytest.fixture
def asked(ada, report):
    return telling.asked(ada, report, {"name": "format", "schema": telling.FORMAT})


@pytest.fixture
def new_id():
    return lambda: str(uuid.uuid4())


@pytest.fixture
def letters(settings, monkeypatch):
    """What was sent, at once and in this thread."""
    settings.EMAIL_URL = "smtp://mail.example:25"
    monkeypatch.setattr(sending.db, "later", lambda function, *args: function(*args))
    mail.outbox = []
    return mail.outbox


def path_in(letter: Any, settings: Any) -> str:
    """The path of the one link in the letter."""
    [path] = re.findall(re.escape(settings.PUBLIC_BASE_URL) + r"(/\S+)", letter.body)
    return path
