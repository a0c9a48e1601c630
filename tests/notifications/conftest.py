"""People with channels, and receivers that keep what they got."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.core import mail

from apps.accounts.models import User
from apps.notifications.models import Channel, Notification
from apps.notifications.sending import CHANNELS, NOTIFICATIONS_TO_SEND
from parley import db, outbound
from tests.outbound.receiving import answer, server
from tests.work.hand import Worker, published_keys

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
Adding = Callable[..., Channel]


@pytest.fixture(autouse=True)
def _loopback_is_open():
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure([])


@pytest.fixture(autouse=True)
def published(monkeypatch):
    """The channels that were given to workers, of which none runs."""
    return published_keys(monkeypatch)


@pytest.fixture
def letters(settings):
    settings.EMAIL_URL = "smtp://mail.example:25"
    mail.outbox = []
    return mail.outbox


@pytest.fixture
def add(ada):
    """Adds a channel of Ada, or of another."""

    def added(type_: str, user: User = ada, **values: Any) -> Channel:
        return CHANNELS.store(user.principal, Channel(type=type_, **values))

    return added


@pytest.fixture
async def sender():
    built = Worker(NOTIFICATIONS_TO_SEND)
    yield built
    await built.close()


@dataclass(frozen=True)
class Call:
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Records its calls. `statuses` answers the first ones; later ones get 204."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[Call] = []
        self.statuses: list[str] = []
        self.came = asyncio.Event()

    async def take(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        self.calls.append(Call(dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:]), body))
        writer.write(answer(b"", self.statuses.pop(0) if self.statuses else "204 No Content"))
        self.came.set()


@pytest.fixture
async def receiver():
    built = Receiver()
    async with server(built.take) as at:
        built.url = f"{at.url}hook"
        yield built


def make_due() -> None:
    """As if the wait was over."""
    Notification.objects.waiting().update(due_at=LONG_AGO)


async def send(sender: Worker, channel: Channel) -> None:
    """As if the wait was over, and a worker came."""
    await db.run(make_due)
    await sender.drain(channel.pk)


def told(channel: Channel) -> list[tuple[str, str]]:
    rows = Notification.objects.filter(channel=channel).order_by("created_at", "event_index")
    return list(rows.values_list("kind", "state"))
