"""Live connections: a session's sends events in order and once, only to its owner; operators' pages stay current."""

import uuid
from contextlib import asynccontextmanager

import pytest
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import Permission
from django.test import Client

from apps.accounts.models import User
from apps.accounts.requests.consumers import NOT_FOUND, SIGNED_OUT
from apps.conversations.pages.session import consumers
from apps.engine import accept, cancel
from apps.operators.consumers import LivePanelConsumer
from apps.record import ledger
from apps.record.events import EventType
from apps.record.models import Event, Task
from parley import db
from parley.asgi import application
from tests.clients import telling

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("the channel layer and the order of events"),
]

HOST = [(b"host", b"testserver"), (b"origin", b"http://testserver")]


@pytest.fixture(autouse=True)
def _allowed_host(settings):
    settings.ALLOWED_HOSTS = ["testserver"]


@asynccontextmanager
async def socket_at(path, client=None, headers=HOST):
    name = settings.SESSION_COOKIE_NAME
    cookies = (
        [(b"cookie", f"{name}={client.cookies[name].value}".encode())] if client and name in client.cookies else []
    )
    socket = WebsocketCommunicator(application, path, headers=[*headers, *cookies])
    try:
        yield socket
    finally:
        await socket.disconnect(timeout=10)


def line(session, client=None, after=None, headers=HOST):
    query = "" if after is None else f"?after={after}"
    return socket_at(f"/ws/sessions/{session}{query}", client, headers)


async def hear(socket, *, until):
    """The patches up to index `until`."""
    heard = []
    while not heard or heard[-1]["index"] < until:
        said = await socket.receive_json_from(timeout=5)
        heard += [said["patch"]] if "patch" in said else []
    return heard


def items_of(patches):
    return [item for patch in patches for item in patch.get("put", [])]


async def test_line_brings_everything_in_order_and_resumes(ada_browser, finished):
    last = await db.run(Event.objects.count)
    async with line(finished.context, ada_browser) as socket:
        assert (await socket.connect())[0]
        patches = await hear(socket, until=last)
    items = items_of(patches)
    assert (items[0]["role"], items[-1]["outcome"]) == ("user", "completed")
    indexes = [patch["index"] for patch in patches]
    assert indexes == sorted(set(indexes))
    async with line(finished.context, ada_browser, after=last - 1) as socket:
        await socket.connect()
        assert [item["outcome"] for item in items_of(await hear(socket, until=last))] == ["completed"]
    for after in ["-1", "nonsense", "9" * 30, "%00"]:
        async with line(finished.context, ada_browser, after=after) as socket:
            await socket.connect()
            assert items_of(await hear(socket, until=1))[0]["index"] == 1, after


async def test_status_comes_when_it_may_have_changed(ada_browser, ada, echo, finished):
    def goes_on(begun):
        progress = {"message": telling.said("Half of it"), "progress": {"done": 1, "total": 2}}
        with ledger.writing(begun.context) as log:
            log.add(EventType.AGENT_STATUS, {"state": "working", **progress}, task=begun.task)

    async with line(finished.context, ada_browser, after=await db.run(Event.objects.count)) as socket:
        await socket.connect()
        assert "Working" not in (await socket.receive_json_from(timeout=5))["status"]
        more = telling.said("and more", contextId=str(finished.context))
        begun = await db.run(telling.accept.accept, ada.principal, echo, more)
        assert "Working" in (await socket.receive_json_from(timeout=5))["status"]
        await db.run(goes_on, begun)
        assert "status" not in await socket.receive_json_from(timeout=5)


async def test_line_is_for_the_owners_pages_of_here(finished, bob_browser, ada_browser):
    for browser, code in ((None, SIGNED_OUT), (bob_browser, NOT_FOUND)):
        async with line(finished.context, browser) as socket:
            await socket.connect()
            assert await last_of(socket) == code
    for origin in [b"http://evil.example", b"http://testserver:9000", b"null", b""]:
        foreign = [(b"host", b"testserver"), (b"origin", origin)]
        async with line(finished.context, ada_browser, headers=foreign) as socket:
            assert not (await socket.connect())[0], origin


@pytest.mark.parametrize("how", ["signed out", "new password"])
async def test_line_ends_with_the_sign_in(ada_browser, ada, finished, monkeypatch, how):
    def change_password():
        ada.set_password("another horse")
        ada.save()

    if how == "new password":
        monkeypatch.setattr(consumers.SessionConsumer, "RECHECK_SECONDS", 0.05)
    async with line(finished.context, ada_browser, after=1000) as socket:
        await socket.connect()
        first = await socket.receive_json_from(timeout=5)
        assert ("patch" in first, first["last"]) == (False, 1000)
        await (db.run(change_password) if how == "new password" else db.run(ada_browser.post, "/sign-out"))
        assert await last_of(socket) == SIGNED_OUT


async def last_of(socket, answer=None):
    """The final close code; `answer` is given to all that comes before."""
    while (output := await socket.receive_output(timeout=10))["type"] != "websocket.close":
        if answer:
            await socket.send_to(answer)
    return output["code"]


async def test_page_that_keeps_up_hears_everything(ada_browser, ada, echo, monkeypatch):
    monkeypatch.setattr(consumers.SessionConsumer, "UNSEEN_EVENTS", 20)
    receipt = await db.run(streamed, ada, echo, 300)
    last = await db.run(Event.objects.count)
    text = ""
    async with line(receipt.context, ada_browser) as socket:
        await socket.connect()
        seen = 0
        while seen < last:
            said = await socket.receive_json_from(timeout=5)
            patch = said.get("patch", {})
            text += "".join(item["text"] for item in patch.get("put", []) if item["kind"] == "made")
            text += "".join(changes.get("more", "") for changes in patch.get("set", {}).values())
            seen = said["last"]
            await socket.send_json_to({"seen": seen})
    assert text.split() == [str(number) for number in range(300)]


def streamed(user, agent, chunks):
    receipt = telling.begun(user, agent)
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
        for number in range(chunks):
            telling.chunk(log, receipt, "log", telling.text(f"{number}\n"), append=number > 0, last=False)
    return receipt


@pytest.fixture
def task(ada, echo):
    return Task.objects.get(pk=telling.begun(ada, echo).task)


@asynccontextmanager
async def panel_line(client, of, **narrowed):
    query = "&".join(f"{name}={value}" for name, value in narrowed.items())
    async with socket_at(f"/ws/admin/contexts/{of.context_id}?{query}", client) as socket:
        assert (await socket.connect())[0]
        yield socket


async def panel_with(socket, text=""):
    while text not in (html := await socket.receive_from(timeout=10)):
        await socket.send_to("shown")
    await socket.send_to("shown")
    return html


async def test_operators_see_what_they_may_view(monkeypatch, ada, bob, bob_browser, task, echo, said):
    def allow(right):
        bob.user_permissions.add(Permission.objects.get(codename=right))

    async def code(client, **narrowed):
        async with panel_line(client, task, **narrowed) as socket:
            return await last_of(socket, "shown")

    for stranger in (Client(), bob_browser):
        assert await code(stranger) == SIGNED_OUT
    await User.objects.filter(pk=bob.pk).aupdate(is_staff=True)
    assert await code(bob_browser, task=task.pk) == NOT_FOUND
    for right, sees_events in (("view_task", False), ("view_event", True)):
        await db.run(allow, right)
        async with panel_line(bob_browser, task, task=task.pk) as socket:
            assert ("user_message" in await panel_with(socket)) is sees_events
    other = (await db.run(accept.accept, bob.principal, echo, said("other"))).task
    for wrong in ({"task": uuid.uuid4()}, {"task": other}, {"run": uuid.uuid4()}, {"task": "nonsense"}):
        assert await code(bob_browser, **wrong) == NOT_FOUND, wrong
    async with panel_line(bob_browser, task, task=task.pk) as socket:
        await db.run(cancel.cancel_task, task)
        await panel_with(socket, "canceled")
    monkeypatch.setattr(LivePanelConsumer, "ACTIVE_SECONDS", 0.05)
    async with panel_line(bob_browser, task, task=task.pk) as socket:
        await db.run(bob_browser.logout)
        assert await last_of(socket, "shown") == SIGNED_OUT
