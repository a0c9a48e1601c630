"""Operators' pages are updated live while their reader may see them."""

import uuid

import pytest
from channels.routing import URLRouter
from channels.sessions import CookieMiddleware, SessionMiddleware
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import Permission
from django.test import Client

import db
from apps.accounts.models import User
from apps.engine import accept, cancel
from apps.operators.consumers import LivePanelConsumer, live_panel_route
from apps.record.models import Task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("the channel layer wakes operators' pages")]

application = CookieMiddleware(SessionMiddleware(URLRouter([live_panel_route])))


@pytest.fixture
def task(ada, echo, said) -> Task:
    return Task.objects.get(pk=accept.accept(ada.principal, echo, said("hi")).task)


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("op@example.org", "let me in"))
    return client


class Line:
    def __init__(self, client: Client, path: str) -> None:
        cookie = f"sessionid={client.cookies['sessionid'].value}" if "sessionid" in client.cookies else ""
        self.end = WebsocketCommunicator(application, path, headers=[(b"cookie", cookie.encode())])

    async def __aenter__(self) -> "Line":
        connected, _ = await self.end.connect()
        assert connected
        return self

    async def __aexit__(self, *error) -> None:
        await self.end.disconnect(timeout=10)

    async def panel(self) -> str:
        html = await self.end.receive_from(timeout=10)
        await self.end.send_to("shown")
        return html

    async def panel_with(self, text: str) -> str:
        while text not in (html := await self.panel()):
            pass
        return html

    async def closed(self) -> int:
        """The close code."""
        while (message := await self.end.receive_output(timeout=10))["type"] != "websocket.close":
            await self.end.send_to("shown")
        return message["code"]


def path_of(of: Task, **narrowed: object) -> str:
    query = "&".join(f"{name}={value}" for name, value in narrowed.items())
    return f"/ws/admin/contexts/{of.context_id}?{query}"


async def test_a_cancel_is_seen_at_once_on_the_pages_of_the_context_the_task_and_the_run(operator, task):
    run = await db.run(task.runs.get)
    paths = path_of(task), path_of(task, task=task.pk), path_of(task, run=run.pk)
    async with Line(operator, paths[0]) as context, Line(operator, paths[1]) as its, Line(operator, paths[2]) as runs:
        for line in (context, its, runs):
            assert "canceled" not in await line.panel()
        await db.run(cancel.cancel_task, task)
        for line in (context, its, runs):
            await line.panel_with("canceled")


async def test_a_page_that_never_shows_anything_is_let_go(monkeypatch, operator, task):
    monkeypatch.setattr(LivePanelConsumer, "SLOW_SECONDS", 0.1)
    async with Line(operator, path_of(task)) as line:
        await line.end.receive_from(timeout=10)
        assert (await line.end.receive_output(timeout=10))["code"] == 4408


async def test_what_moves_without_an_event_is_renewed(monkeypatch, operator, task):
    monkeypatch.setattr(LivePanelConsumer, "ACTIVE_SECONDS", 0.05)
    async with Line(operator, path_of(task, task=task.pk)) as line:
        await line.panel()
        await db.run(task.runs.update, worker="the-second-worker")
        await line.panel_with("the-second-worker")


async def test_the_line_is_for_operators(ada, task):
    member = Client()
    await db.run(member.force_login, ada)
    for client in (Client(), member):
        async with Line(client, path_of(task)) as line:
            assert await line.closed() == 4401


async def test_an_operator_sees_what_they_may_view_and_no_more(task):
    person = await db.run(lambda: User.objects.create_user("op@example.org", "let me in", is_staff=True))
    client = Client()
    await db.run(client.force_login, person)
    async with Line(client, path_of(task, task=task.pk)) as line:
        assert await line.closed() == 4404
    await db.run(lambda: person.user_permissions.add(Permission.objects.get(codename="view_task")))
    async with Line(client, path_of(task, task=task.pk)) as line:
        html = await line.panel()
        assert "submitted" in html
        assert "user_message" not in html
    async with Line(client, path_of(task)) as line:
        assert await line.closed() == 4404
    await db.run(lambda: person.user_permissions.add(Permission.objects.get(codename="view_event")))
    async with Line(client, path_of(task, task=task.pk)) as line:
        assert "user_message" in await line.panel()


async def test_signing_out_ends_the_line(monkeypatch, operator, task):
    monkeypatch.setattr(LivePanelConsumer, "ACTIVE_SECONDS", 0.05)
    async with Line(operator, path_of(task)) as line:
        await line.panel()
        await db.run(operator.logout)
        assert await line.closed() == 4401


async def test_what_is_not_there_is_not_found(operator, task, bob, echo, said):
    other = await db.run(lambda: Task.objects.get(pk=accept.accept(bob.principal, echo, said("other")).task))
    for path in (
        f"/ws/admin/contexts/{uuid.uuid4()}",
        path_of(task, task=uuid.uuid4()),
        path_of(task, task=other.pk),
        path_of(task, run=uuid.uuid4()),
        path_of(task, task="nonsense"),
    ):
        async with Line(operator, path) as line:
            assert await line.closed() == 4404
