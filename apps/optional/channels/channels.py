"""Channels as their owners make them: what is checked, and what is done to one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from django.conf import settings

from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource, deleting, pausing, resuming, save_own
from apps.optional.channels.models import ChatChannel
from apps.optional.channels.platforms import Later, Refused, Setting
from apps.optional.channels.receiving import tune
from apps.record.errors import InvalidFields, Refusal
from apps.record.events import JSON
from parley import outbound
from parley.db import sql
from parley.outbound import Limits

MOST_SETTING = 5_000  # characters
NO_AGENT = "Choose an agent that you may use."
LEFT_OUT = "The app of this platform is not installed any more."


class CheckFailed(Refusal):
    """The platform did not accept the channel."""


def save(principal: Principal, channel: ChatChannel) -> ChatChannel:
    """Check and save a new or a changed channel of the caller. Raises InvalidFields.

    It may be saved before the platform gave its settings: until they are there, it takes nothing.
    """
    platform = channel.at
    if platform is None:
        raise InvalidFields([("platform", "Choose a platform that is installed.")])
    known = {setting.name for setting in platform.settings}
    problems = [] if channel.agent else [("agent", NO_AGENT)]
    unknown = channel.credentials.keys() - known
    problems += [(f"credentials.{name}", f"{platform.label} has no setting {name}.") for name in unknown]
    if problems:
        raise InvalidFields(problems)
    missing = ", ".join(one.label for one in missing_settings(channel))
    channel.problem = f"Enter: {missing}." if missing else ""
    is_new = channel._state.adding
    save_own(principal, channel)
    if not is_new:
        ChatChannel.objects.filter(pk=channel.pk).update(secrets=channel.secrets, problem=channel.problem)
    tune(channel, is_on=not channel.paused_at and not missing)
    return channel


def missing_settings(channel: ChatChannel) -> list[Setting]:
    saved, known = channel.credentials, channel.at.settings if channel.at else ()
    sent = {one.gets for one in known if saved.get(one.name)}
    return [one for one in known if (one.is_needed or one.name in sent) and not saved.get(one.name)]


def shown_settings(channel: ChatChannel) -> JSON:
    """Without secrets: of those, whether they are saved."""
    platform, saved = channel.at, channel.credentials
    if platform is None:
        return {}
    return {
        one.name: bool(saved.get(one.name)) if one.is_secret else saved.get(one.name, "") for one in platform.settings
    }


def address_of(channel: ChatChannel) -> str:
    """Where the platform sends what people do."""
    return f"{settings.PUBLIC_BASE_URL}/hooks/chats/{channel.pk}"


def setup_of(channel: ChatChannel) -> list[str]:
    """What to do at the platform, step by step."""
    return [step.format(address=address_of(channel)) for step in channel.at.setup] if channel.at else [LEFT_OUT]


def pause(channel: ChatChannel, principal: Principal) -> ChatChannel:
    """Nothing that comes in is taken, and nothing is posted. Raises NotNeeded."""
    if not ChatChannel.objects.filter(pk=channel.pk, paused_at=None).update(paused_at=sql.database_time()):
        raise NotNeeded("It is paused already.")
    tune(channel, is_on=False)
    return channel


def resume(channel: ChatChannel, principal: Principal) -> ChatChannel:
    """Raises NotNeeded."""
    if not ChatChannel.objects.filter(pk=channel.pk, paused_at__isnull=False).update(paused_at=None):
        raise NotNeeded("It is not paused.")
    tune(channel, is_on=not missing_settings(channel), is_afresh=True)
    return channel


@dataclass(frozen=True, slots=True)
class Checked:
    """What the platform says of a channel: who the agent is there, or what is wrong."""

    identity: str = ""
    problem: str = ""

    @property
    def words(self) -> str:
        return self.problem or f"It works. The agent is {self.identity} there."


async def check(channel: ChatChannel) -> Checked:
    """Ask the platform whether it accepts the credentials, and tell it the address. Asks no database."""
    platform = channel.at
    if platform is None:
        return Checked(problem=LEFT_OUT)
    try:
        async with outbound.exchange(Limits(seconds=settings.WEBHOOK_SECONDS)) as client:
            return Checked((await platform.connect(client, channel, address_of(channel)))[:200])
    except (Later, Refused) as problem:
        return Checked(problem=f"{platform.label} did not accept it: {problem}"[:300])


def note(channel: ChatChannel, checked: Checked) -> None:
    known = {"problem": checked.problem} | ({"identity": checked.identity} if checked.identity else {})
    ChatChannel.objects.filter(pk=channel.pk).update(**known)


def _test(channel: ChatChannel, principal: Principal) -> str:
    """For threads without an event loop. Raises CheckFailed."""
    checked = asyncio.run(check(channel))
    note(channel, checked)
    if checked.problem:
        raise CheckFailed(checked.problem)
    return checked.words


PAUSE = pausing(pause, "a chat channel", "Nothing that comes in is taken, and nothing is posted.")
RESUME = resuming(resume, "a paused chat channel", "What was written during the pause is not answered.")
TEST = Act[ChatChannel](
    "test",
    "Test",
    _test,
    "Test a chat channel",
    "The platform is asked whether it accepts the credentials, and told the address where that is possible.",
    str,
    starts_work=True,
    icon="network_check",
)
DELETE: Act[ChatChannel] = deleting("a chat channel", "Accounts that are linked to it are unlinked. Sessions stay.")
CHANNELS = Resource(
    "chat-channels",
    "chat_channel",
    ChatChannel,
    save,
    (TEST, PAUSE, RESUME, DELETE),
    ("agent",),
    permission=Permission.BUILD,
)
