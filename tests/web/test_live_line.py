"""The live connection sends events in order and once, only to their owner."""

from contextlib import asynccontextmanager

import pytest
from channels.testing import WebsocketCommunicator
from django.conf import settings

import db
from apps.accounts import workspaces
from apps.accounts.consumers import CHANGED, NOT_FOUND, SIGNED_OUT, TOO_SLOW
from apps.accounts.permissions import Role
from apps.features.sessions import commands
from apps.record import ledger
from apps.record.events import EventType
from apps.record.models import Context, Event
from apps.web.sessions import consumers
from config.asgi import application
from tests.members import member
from tests.web import telling

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("the channel layer and the order of events"),
]

HOST = [(b"host", b"testserver"), (b"origin", b"http://testserver")]


@pytest.fixture(autouse=True)
def _allowed_host(settings):
    settings.ALLOWED_HOSTS = ["testserver"]


def cookie_of(client):
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}".encode()


@asynccontextmanager
async def line(session, client=None, after=None, headers=HOST):
    cookies = [(b"cookie", cookie_of(client))] if client else []
    query = "" if after is None else f"?after={after}"
    socket = WebsocketCommunicator(application, f"/ws/sessions/{session}{query}", headers=[*headers, *cookies])
    try:
        yield socket
    finally:
        await socket.disconnect(timeout=10)


async def closed_with(socket):
    return (await socket.receive_output(timeout=5))["code"]


async def hear(socket, *, until):
    """The entries up to index `until`."""
    heard = []
    while not heard or heard[-1]["index"] < until:
        said = await socket.receive_json_from(timeout=5)
        heard += said.get("entries", [])
    return heard


async def test_a_line_brings_everything_in_order_and_resumes_where_the_page_is(ada_browser, finished):
    async with line(finished.context, ada_browser) as socket:
        assert (await socket.connect())[0]
        entries = await hear(socket, until=await db.run(Event.objects.count))
    assert entries[0]["type"] == "user_message"
    assert entries[-1]["state"] == "completed"
    indexes = [entry["index"] for entry in entries]
    assert indexes == sorted(set(indexes))
    last = await db.run(Event.objects.count)
    async with line(finished.context, ada_browser, after=last - 1) as socket:
        await socket.connect()
        assert [entry["index"] for entry in await hear(socket, until=last)] == [last]
    for after in ["-1", "nonsense", "9" * 30, "%00"]:
        async with line(finished.context, ada_browser, after=after) as socket:
            await socket.connect()
            assert (await hear(socket, until=1))[0]["index"] == 1, after


async def test_a_page_is_told_how_the_session_stands_when_that_may_be_another(ada_browser, ada, echo, finished):
    last = await db.run(Event.objects.count)
    async with line(finished.context, ada_browser, after=last) as socket:
        await socket.connect()
        assert "Working" not in (await socket.receive_json_from(timeout=5))["status"]
        more = telling.said("and more", contextId=str(finished.context))
        begun = await db.run(telling.accept.accept, ada.principal, echo, more)
        assert "Working" in (await socket.receive_json_from(timeout=5))["status"]
        await db.run(goes_on, begun)
        assert "status" not in await socket.receive_json_from(timeout=5)


def goes_on(begun):
    progress = {"message": telling.said("Half of it"), "progress": {"done": 1, "total": 2}}
    with ledger.writing(begun.context) as log:
        log.add(EventType.AGENT_STATUS, {"state": "working", **progress}, task=begun.task)


async def test_nobody_hears_without_signing_in_from_another_site_or_in_somebody_elses_session(
    finished, bob_browser, ada_browser
):
    async with line(finished.context) as socket:
        await socket.connect()
        assert await closed_with(socket) == SIGNED_OUT
    async with line(finished.context, bob_browser) as socket:
        await socket.connect()
        assert await closed_with(socket) == NOT_FOUND
    for origin in [b"http://evil.example", b"http://testserver:9000", b"null", b""]:
        foreign = [(b"host", b"testserver"), (b"origin", origin)]
        async with line(finished.context, ada_browser, headers=foreign) as socket:
            connected, _ = await socket.connect()
            assert not connected, origin


async def test_signing_out_ends_the_line_within_five_seconds(ada_browser, finished):
    async with line(finished.context, ada_browser, after=1000) as socket:
        await socket.connect()
        first = await socket.receive_json_from(timeout=5)
        assert (first["entries"], first["last"]) == ([], 1000)
        await db.run(ada_browser.post, "/sign-out")
        assert await last_of(socket) == SIGNED_OUT


async def test_a_new_password_ends_the_line(ada_browser, ada, finished, monkeypatch):
    monkeypatch.setattr(consumers.SessionConsumer, "RECHECK_SECONDS", 0.05)
    async with line(finished.context, ada_browser, after=1000) as socket:
        await socket.connect()
        await db.run(change_password, ada)
        assert await last_of(socket) == SIGNED_OUT


async def test_another_role_ends_the_line_within_five_seconds(ada, bob, echo, bob_browser):
    finished = await db.run(telling.finished, ada, echo)
    await db.run(commands.share_session, ada.principal, finished.context, Context.Sharing.WORKSPACE)
    await db.run(member, bob, ada)
    async with line(finished.context, bob_browser, after=1000) as socket:
        await socket.connect()
        await socket.receive_json_from(timeout=5)
        await db.run(workspaces.change_role, ada.principal, ada.personal_workspace.pk, bob.pk, Role.VIEWER)
        assert await last_of(socket) == CHANGED
    async with line(finished.context, bob_browser, after=1000) as again:
        await again.connect()
        assert "entries" in await again.receive_json_from(timeout=5)


def change_password(user):
    user.set_password("another horse")
    user.save()


async def last_of(socket):
    """The final close code."""
    while (output := await socket.receive_output(timeout=5))["type"] != "websocket.close":
        continue
    return output["code"]


async def test_a_page_that_takes_nothing_in_is_waited_for_and_then_let_go(ada_browser, ada, echo, monkeypatch):
    monkeypatch.setattr(consumers.SessionConsumer, "UNSEEN_EVENTS", 20)
    monkeypatch.setattr(consumers.SessionConsumer, "SLOW_SECONDS", 0.2)
    receipt = await db.run(streamed, ada, echo, 1200)
    async with line(receipt.context, ada_browser) as socket:
        await socket.connect()
        assert await last_of(socket) == TOO_SLOW


async def test_a_page_that_keeps_up_hears_everything(ada_browser, ada, echo, monkeypatch):
    monkeypatch.setattr(consumers.SessionConsumer, "UNSEEN_EVENTS", 20)
    receipt = await db.run(streamed, ada, echo, 1200)
    last = await db.run(Event.objects.count)
    text = ""
    async with line(receipt.context, ada_browser) as socket:
        await socket.connect()
        seen = 0
        while seen < last:
            said = await socket.receive_json_from(timeout=5)
            text += "".join(entry.get("text", "") for entry in said["entries"] if entry["type"] == "artifact_update")
            seen = said["last"]
            await socket.send_json_to({"seen": seen})
    assert text.split() == [str(number) for number in range(1200)]


async def test_what_is_recorded_now_comes_now_and_nonsense_from_a_page_is_ignored(ada_browser, ada, echo, finished):
    for nonsense in ["[]", "{}", '{"seen": "x"}', "not json", '{"seen": null}']:
        last = await db.run(Event.objects.count)
        async with line(finished.context, ada_browser, after=last) as socket:
            await socket.connect()
            await socket.send_to(text_data=nonsense)
            more = telling.said("and more", contextId=str(finished.context))
            await db.run(telling.accept.accept, ada.principal, echo, more)
            [entry] = await hear(socket, until=last + 1)
        assert entry["message"]["text"] == "and more", nonsense


def streamed(user, agent, chunks):
    receipt = telling.begun(user, agent)
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
        for number in range(chunks):
            telling.chunk(log, receipt, "log", telling.text(f"{number}\n"), append=number > 0, last=False)
    return receipt
