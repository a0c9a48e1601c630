"""Letters from a mailbox: each is done once, whatever happens meanwhile."""

import asyncio

import pytest
from django.db.models import F

from apps.optional.channels import channels, receiving
from apps.optional.channels.channels import PAUSE, RESUME
from apps.optional.channels.mail.mailbox import SPACE
from apps.optional.channels.models import ChatChannel, ChatEvent, ChatFeed
from apps.optional.channels.platforms import Refused
from apps.optional.channels.receiving import FEEDS_TO_READ
from parley import db, outbound
from parley.db import sql
from tests.channels.imap import HOST, PASSWORD, mail_server
from tests.channels.mail import MailStandIn
from tests.work.hand import Worker, work_off

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def server(tmp_path, monkeypatch):
    outbound.configure(["127.0.0.1", "localhost"])
    async with mail_server(tmp_path, monkeypatch) as one:
        yield one
    outbound.configure([])


@pytest.fixture
async def channel(ada, echo, server):
    def make():
        row = ChatChannel(name="Letters", platform="mail", agent=echo)
        given = {"imap_server": f"{HOST}:{server.port}", "imap_password": PASSWORD}
        row.credentials = {"address": "agent@example.org", "checked_by": "mx.example.org", **given}
        return channels.save(ada.principal, row)

    return await db.run(make)


def letter(key, text="hello"):
    return MailStandIn().letter("ada", text, Message_ID=f"<{key}@elsewhere.example>")


async def look():
    """Read the mailbox as at the next minute."""
    now = await db.run(sql.database_time)
    await ChatFeed.objects.aupdate(next_try_at=now, lease_until=None)
    await work_off(FEEDS_TO_READ)


async def taken():
    return [one.event_id async for one in ChatEvent.objects.order_by("pk")]


async def test_letters_are_taken_from_first_look_on(channel, server):
    server.add(letter("old"))
    await look()
    assert await taken() == []
    server.add(letter("new"))
    await look()
    await look()
    assert await taken() == ["<new@elsewhere.example>"]


async def test_server_need_not_tell_next_uid(channel, server):
    server.tells_next = False
    server.add(letter("old"))
    await look()
    server.add(letter("new"))
    await look()
    assert await taken() == ["<new@elsewhere.example>"]


class Death(BaseException):
    """Of a worker, in the middle of something."""


async def test_dead_worker_loses_and_doubles_no_letter(channel, server, monkeypatch):
    await look()
    for key in ("one", "two", "three"):
        server.add(letter(key))
    record = receiving.record

    def die_at_second(channel, events, refused):
        if [one.event_id for one in events] == ["<two@elsewhere.example>"]:
            raise Death
        return record(channel, events, refused)

    with monkeypatch.context() as patch:
        patch.setattr("apps.optional.channels.receiving.record", die_at_second)
        await ChatFeed.objects.aupdate(next_try_at=await db.run(sql.database_time))
        with pytest.raises(Death):
            await Worker(FEEDS_TO_READ).do((await ChatFeed.objects.aget()).pk)
    assert await taken() == ["<one@elsewhere.example>"]
    await look()
    assert await taken() == [f"<{key}@elsewhere.example>" for key in ("one", "two", "three")]


async def test_renumbered_mailbox_doubles_nothing(channel, server):
    await look()
    server.add(letter("one"))
    await look()
    server.validity, server.letters = 8, {3: letter("one").as_bytes(), 4: letter("two").as_bytes()}
    server.sizes = {3: 9, 4: 9}
    await look()
    server.letters[5], server.sizes[5] = letter("three").as_bytes(), 9
    await look()
    assert await taken() == [f"<{key}@elsewhere.example>" for key in ("one", "two", "three")]


async def test_unusable_letters_are_refused_with_note(channel, server):
    await look()
    large = server.add(letter("large"), size=26 * 1024 * 1024)
    broken = server.add(b"\xff\xfe no letter at all")
    server.add(letter("good"))
    await look()
    notes = {one.event_id: one.problem async for one in ChatEvent.objects.filter(done_at__isnull=False)}
    assert "at most" in notes[f"uid 7 {large}"]
    assert "cannot be read" in notes[f"uid 7 {broken}"]
    assert "<good@elsewhere.example>" in await taken()


async def test_deeply_nested_letter_stops_no_mailbox(channel, server):
    await look()
    nested = server.add(b"Message-ID: " + b"(" * 2_000 + b"\n\nhello")
    server.add(letter("good"))
    await look()
    assert "cannot be read" in (await ChatEvent.objects.aget(event_id=f"uid 7 {nested}")).problem
    assert "<good@elsewhere.example>" in await taken()


@pytest.mark.parametrize("limit", [{"mailbox.COMMAND_SECONDS": 0.3}, {"platform.Mail.most_bytes": 2_000 - SPACE}])
async def test_endless_answer_is_given_up(channel, server, monkeypatch, limit):
    await look()
    for name, most in limit.items():
        monkeypatch.setattr(f"apps.optional.channels.mail.{name}", most)
    server.drips = b"* 1 EXISTS\r\n"
    async with asyncio.timeout(20):
        await look()
    assert "did not answer" in (await ChatChannel.objects.aget()).problem


async def test_canceled_look_leaves_the_server(channel, server):
    await look()
    server.drips = b"*"
    looking = asyncio.ensure_future(look())
    await server.dripped.wait()
    looking.cancel()
    async with asyncio.timeout(10):
        await server.gone.wait()


async def test_problem_with_server_is_told(channel, server):
    await db.run(lambda: ChatFeed.objects.update(tries=0))
    outbound.configure([])
    await look()
    assert "private network" in (await ChatChannel.objects.aget()).problem
    outbound.configure(["127.0.0.1", "localhost"])
    await look()
    assert (await ChatChannel.objects.aget()).problem == ""
    wrong = await ChatChannel.objects.aget()
    wrong.credentials = {"imap_password": "another"}
    await wrong.asave()
    await look()
    assert "does not accept" in (await ChatChannel.objects.aget()).problem


async def test_worker_that_lost_mailbox_notes_no_problem(channel, server, monkeypatch):
    async def fail(self):
        await ChatFeed.objects.aupdate(fence=F("fence") + 1)
        raise Refused("It does not work.")

    monkeypatch.setattr("apps.optional.channels.mail.mailbox.Mailbox.open", fail)
    await look()
    assert (await ChatChannel.objects.aget()).problem == ""


async def test_letters_of_a_pause_are_left_out(channel, server, ada):
    await look()
    await db.run(PAUSE.perform, ada.principal, channel)
    server.add(letter("one"))
    await look()
    await db.run(RESUME.perform, ada.principal, await ChatChannel.objects.aget())
    await look()
    assert await taken() == []
    server.add(letter("two"))
    await look()
    assert await taken() == ["<two@elsewhere.example>"]
