"""A channel at each platform's stand-in, with Ada linked to it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from apps.accounts.models import User
from apps.optional.channels import channels
from apps.optional.channels.acting import EVENTS_TO_ACT_ON
from apps.optional.channels.answering import ANSWERS_TO_POST
from apps.optional.channels.models import ChatAccount, ChatAnswer, ChatChannel, ChatEvent
from parley import db, outbound
from tests.channels.discord import DiscordStandIn
from tests.channels.mail import MailStandIn
from tests.channels.slack import SlackStandIn
from tests.channels.standin import StandIn, standing
from tests.channels.teams import TeamsStandIn
from tests.channels.telegram import TelegramStandIn
from tests.work.hand import work_off

STAND_INS: dict[str, type[StandIn]] = {
    one.name: one for one in (SlackStandIn, TelegramStandIn, MailStandIn, DiscordStandIn, TeamsStandIn)
}


@pytest.fixture(autouse=True)
def _loopback_is_open():
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure([])


@pytest.fixture(params=STAND_INS)
async def platform(request, monkeypatch):
    async with standing(STAND_INS[request.param]()) as one:
        one.attach(monkeypatch)
        yield one


@dataclass
class Chat:
    """A channel, and what people do there."""

    channel: ChatChannel
    at: Any

    async def deliver(self, request: tuple[dict[str, str], bytes]) -> int:
        """The platform's request; returns the status."""
        return await self.at.deliver(self.channel, request)

    async def do(self, request: tuple[dict[str, str], bytes]) -> None:
        """Deliver it, and let workers do it, so far as nothing waits for an agent."""
        assert await self.deliver(request) < 300
        await self.work()

    async def work(self) -> None:
        """Let workers do what is due of what was delivered."""
        await work_off(EVENTS_TO_ACT_ON)

    async def hear(self) -> None:
        """Post all that agents have answered."""
        await work_off(ANSWERS_TO_POST)

    async def settle(self) -> None:
        """Wait until a running worker's answers are posted."""
        async with asyncio.timeout(60):
            while await ChatAnswer.objects.unfinished().aexists() or await ChatEvent.objects.unfinished().aexists():
                await work_off(EVENTS_TO_ACT_ON)
                await work_off(ANSWERS_TO_POST)


def link(channel: ChatChannel, user: User, person: str) -> ChatAccount:
    return ChatAccount.objects.create(channel=channel, user=user, external_id=person)


@pytest.fixture
async def chat(ada, echo, platform):
    """Ada is linked, and nobody else."""

    def make() -> ChatChannel:
        row = ChatChannel(name="Help", platform=platform.name, agent=echo)
        row.credentials = platform.credentials
        made = channels.save(ada.principal, row)
        link(made, ada, platform.person("ada"))
        platform.channel = str(made.pk)
        return ChatChannel.objects.select_related("owner", "agent").get(pk=made.pk)

    return Chat(await db.run(make), platform)
