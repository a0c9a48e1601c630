"""What is Discord's own: its signatures, its commands, its threads, and the Gateway."""

import json
import time

import pytest

from apps.optional.channels.channels import TEST, CheckFailed
from apps.optional.channels.discord import receiving
from apps.optional.channels.discord.platform import Discord
from apps.optional.channels.discord.sending import components_of
from apps.optional.channels.models import ChatChannel, ChatEvent, ChatThread
from apps.optional.channels.platforms import Button
from apps.record.models import Context, Message
from parley import db
from parley.db import sql
from tests.channels.conftest import link
from tests.channels.discord import BOT, DiscordStandIn, signed

pytestmark = pytest.mark.django_db(transaction=True)
of_discord = pytest.mark.parametrize("platform", ["discord"], indirect=True)


@pytest.fixture
def channel():
    made = ChatChannel(platform="discord")
    made.credentials = DiscordStandIn.credentials
    return made


async def test_old_and_false_requests_count_not(channel):
    body, now = b"{}", time.time()
    genuine = signed(body, now)
    assert await Discord().is_genuine(channel, genuine, body, now)
    assert not await Discord().is_genuine(channel, signed(body, now - 301), body, now)
    assert not await Discord().is_genuine(channel, {**genuine, "X-Signature-Timestamp": "9" * 310}, body, now)
    assert not await Discord().is_genuine(channel, genuine, b"{} ", now)
    assert not await Discord().is_genuine(channel, {**genuine, "X-Signature-Ed25519": "no hexadecimal"}, body, now)


def test_ping_is_answered(channel):
    answer = Discord().read(channel, {}, json.dumps({"type": 1}).encode()).answer
    assert json.loads(answer.content) == {"type": 1}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, [False]),
        ({"mentions": [{"id": BOT}]}, [True]),
        ({"referenced_message": {"author": {"id": BOT}}, "type": 19}, [True]),
        ({"guild_id": None}, [True]),
        ({"author": {"id": "b", "bot": True}}, []),
        ({"webhook_id": "w"}, []),
        ({"type": 7}, []),  # somebody joined
    ],
)
def test_messages_to_agent(change, found):
    told = DiscordStandIn()._said("ada", f"<@{BOT}> hello", "C1", "1") | change
    events = list(receiving.heard("MESSAGE_CREATE", told, "e", BOT))
    assert [one.is_addressed for one in events] == found
    assert all(one.text == "hello" for one in events)


def test_preview_of_link_is_no_edit():
    told = DiscordStandIn()._said("ada", "hello", "C1", "1")
    assert list(receiving.heard("MESSAGE_UPDATE", {**told, "edited_timestamp": None}, "e", BOT)) == []


def test_many_options_are_a_menu():
    [row] = components_of([Button(f"Option {number}", f"1.{number}") for number in range(20)])
    assert [one["value"] for one in row["components"][0]["options"]][-1] == "1.19"
    pressed = {"type": 3, "id": "i", "channel_id": "T", "user": {"id": "ada"}, "message": {"id": "2"}}
    body = json.dumps({**pressed, "data": {"custom_id": "answer", "values": ["1.19"]}}).encode()
    assert [one.press for one in receiving.read(body).events] == ["1.19"]


@of_discord
async def test_command_at_message_quotes_it(chat):
    said = {"id": "70", "content": "It fails.\nWhy?", "author": {"id": "bob", "username": "Bob"}, "attachments": []}
    data = {"name": "Ask the agent", "type": 3, "target_id": "70", "resolved": {"messages": {"70": said}}}
    await chat.do(chat.at.interaction("ada", 2, data, "C1"))
    message = await Message.objects.aget(role="user")
    assert message.parts[0]["text"] == "Bob wrote:\n\n> It fails.\n> Why?"
    assert (await ChatThread.objects.aget()).thread == "70"


@of_discord
async def test_new_command_begins_session_in_thread(chat):
    await chat.do(chat.at.message("ada", "hello", key="70"))
    first = (await ChatThread.objects.aget()).session_id
    await chat.do(chat.at.interaction("ada", 2, {"name": "new", "type": 1}, "70"))
    assert (await ChatThread.objects.aget()).session_id != first


@of_discord
async def test_command_waits_until_discord_shows_it(chat):
    chat.at.is_early = True
    await chat.do(chat.at.message("ada", "hello"))
    chat.at.is_early = False
    await ChatEvent.objects.aupdate(next_try_at=await db.run(sql.database_time))
    await chat.work()
    assert await Message.objects.filter(role="user").acount() == 1


@of_discord
async def test_thread_takes_messages_without_mention(chat):
    await chat.do(chat.at.message("ada", "hello", key="70"))
    for channel, key in (("70", "71"), ("C1", "72")):
        said = chat.at._said("ada", "more", channel, key)
        await chat.do(chat.at.event("MESSAGE_CREATE", said))
    assert await Message.objects.filter(role="user").acount() == 2
    assert await Context.objects.acount() == 1


@of_discord
async def test_talk_without_agent_is_not_stored(chat):
    await chat.deliver(chat.at.event("MESSAGE_CREATE", chat.at._said("eve", "between us", "C1", "70")))
    assert not await ChatEvent.objects.aexists()


@of_discord
async def test_stranger_begins_no_thread(chat):
    await chat.do(chat.at.message("eve", "hello", key="70"))
    assert "/settings/chat-accounts" in chat.at.texts[0]
    assert chat.at.threads == set()


@of_discord
@pytest.mark.parametrize("is_linked", [True, False])
async def test_talk_of_others_in_thread_is_not_answered(chat, bob, is_linked):
    await chat.do(chat.at.message("ada", "hello", key="70"))
    if is_linked:
        await db.run(link, chat.channel, bob, "bob")
    await chat.do(chat.at.event("MESSAGE_CREATE", chat.at._said("bob", "I think so, too.", "70", "71")))
    assert chat.at.shown == []
    assert await Message.objects.filter(role="user").acount() == 1


@of_discord
async def test_gateway_goes_on_where_it_was(chat):
    await chat.deliver(chat.at.message("ada", "one", key="70"))
    await chat.deliver(chat.at.message("ada", "two", key="71"))
    assert [one["op"] for one in chat.at.begun] == [2, 6]
    assert (chat.at.begun[1]["d"]["session_id"], chat.at.begun[1]["d"]["seq"]) == ("s1", 2)
    assert chat.at.ended not in (1000, 1001)  # by those, Discord forgets the session
    assert await ChatEvent.objects.acount() == 2


@of_discord
@pytest.mark.parametrize("end", [{"op": 9, "d": False}, 4009])
async def test_forgotten_session_begins_anew(chat, end):
    await chat.deliver(chat.at.message("ada", "one", key="70"))
    chat.at.coming = [end]
    await chat.at.be_heard()
    await chat.deliver(chat.at.message("ada", "two", key="71"))
    assert [one["op"] for one in chat.at.begun] == [2, 6, 2]
    assert await ChatEvent.objects.acount() == 2


@of_discord
async def test_gateway_that_refuses_is_problem_of_channel(chat):
    chat.at.coming = [4014]
    await chat.at.be_heard()
    assert "Message Content Intent" in (await ChatChannel.objects.aget()).problem


@of_discord
async def test_resumed_session_clears_problem(chat):
    await chat.deliver(chat.at.message("ada", "one", key="70"))
    await ChatChannel.objects.aupdate(problem="Discord's Gateway does not answer.")
    await chat.at.be_heard()
    assert (await ChatChannel.objects.aget()).problem == ""


@of_discord
async def test_heartbeat_is_sent_when_asked(chat):
    chat.at.coming = [{"op": 1, "d": None}, {"op": 11}]
    await chat.at.be_heard()
    assert chat.at.beats == [1]


@of_discord
async def test_silent_connection_is_given_up(chat):
    chat.at.interval, chat.at.is_silent = 20, True
    await chat.at.be_heard()
    assert (len(chat.at.beats), chat.at.ended) == (1, 4000)


@of_discord
async def test_test_act_makes_commands_and_checks_intent(chat, ada):
    await db.run(TEST.perform, ada.principal, chat.channel)
    assert chat.at.commands == ["ask", "new", "Ask the agent"]
    chat.at.flags = 0
    with pytest.raises(CheckFailed, match="Message Content Intent"):
        await db.run(TEST.perform, ada.principal, chat.channel)
