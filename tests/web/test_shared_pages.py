"""The pages of a session that its owner shares with the workspace."""

import asyncio
import threading

import pytest

import db
from apps.accounts.consumers import CHANGED, NOT_FOUND
from apps.accounts.permissions import Role
from apps.engine import accept
from apps.features.sessions import commands
from apps.features.sharing import presence
from apps.record.models import Context, Task
from apps.web.sessions import consumers
from apps.web.sessions.entries import entries_between
from tests.members import member
from tests.web import telling
from tests.web.test_live_line import last_of, line

pytestmark = pytest.mark.django_db(transaction=True)

PRIVATE, WORKSPACE = Context.Sharing


@pytest.fixture
def talk(ada, finished):
    return commands.share_session(ada.principal, finished.context, WORKSPACE)


@pytest.fixture
def colleague(ada, bob):
    return member(bob, ada)


def test_members_open_it_and_find_it_in_the_sidebar(talk, ada, colleague, bob_browser):
    shown = bob_browser.get(f"/sessions/{talk.pk}")
    assert (shown.status_code, shown.context["is_own"], shown.context["may_write"]) == (200, False, True)
    assert bob_browser.get("/sidebar").context["recent"].shared == [talk]
    commands.share_session(ada.principal, talk.pk, PRIVATE)
    assert bob_browser.get(f"/sessions/{talk.pk}").status_code == 404
    assert bob_browser.get("/sidebar").context["recent"].shared == []


def test_who_wrote_what_is_at_the_messages(talk, ada, bob, colleague, echo):
    accept.accept(colleague, echo, telling.said("his", contextId=talk.name_for(colleague)))
    talk.refresh_from_db()
    said = [one for one in entries_between(talk, 0, talk.last_event + 1) if one["type"] == "user_message"]
    assert [one["by"]["name"] for one in said] == ["Ada", "Bob"]
    commands.share_session(ada.principal, talk.pk, PRIVATE)
    assert [one["by"]["id"] for one in said] == [ada.pk, bob.pk], "also when it is private again"


def test_a_message_to_anothers_waiting_task_is_a_task_of_its_own(talk, ada, bob, colleague, bob_browser, echo):
    hers = accept.accept(ada.principal, echo, telling.said("more", contextId=talk.context_id))
    message = {"text": "his", "task": str(hers.task), "message": "5f0c3f7e-8f43-4b6a-9a52-9f7dd3f6a001"}
    assert bob_browser.post(f"/sessions/{talk.pk}/messages", message).status_code == 201
    assert Task.objects.filter(context=talk, owner=bob).count() == 1
    answer = {**message, "asked": "1", "message": "5f0c3f7e-8f43-4b6a-9a52-9f7dd3f6a002"}
    assert bob_browser.post(f"/sessions/{talk.pk}/messages", answer).status_code == 409


async def test_people_see_who_else_is_here(talk, colleague, ada_browser, bob_browser, monkeypatch):
    monkeypatch.setattr(presence, "RENEW_SECONDS", 0.05)
    async with line(talk.pk, ada_browser, after=1000) as hers:
        await hers.connect()
        async with line(talk.pk, bob_browser, after=1000) as his:
            await his.connect()
            assert await people(hers, bool) == ["Bob"]
            assert await people(his, bool) == ["Ada"]
        assert await people(hers, lambda names: not names) == []


async def test_who_leaves_during_a_renewal_is_gone(talk, ada_browser, monkeypatch):
    renew, under_way, go_on, renewed = presence.renew, threading.Event(), threading.Event(), threading.Event()

    def slow(*given):
        under_way.set()
        go_on.wait(30)
        renew(*given)
        renewed.set()
        return []

    monkeypatch.setattr(presence, "renew", slow)
    async with line(talk.pk, ada_browser, after=1000) as hers:
        await hers.connect()
        await asyncio.to_thread(under_way.wait, 30)
        asyncio.get_running_loop().call_later(0.1, go_on.set)
    await asyncio.to_thread(renewed.wait, 30)
    assert not await db.run(presence.Presence.objects.exists)


async def people(socket, wanted):
    while True:
        said = await socket.receive_json_from(timeout=5)
        if "people" in said and wanted(said["people"]):
            return [one["name"] for one in said["people"]]


async def test_nobody_is_noted_in_a_private_session(finished, ada_browser, monkeypatch):
    monkeypatch.setattr(presence, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(consumers.SessionConsumer, "ALIVE_SECONDS", 0.1)
    async with line(finished.context, ada_browser, after=1000) as hers:
        await hers.connect()
        await hers.receive_json_from(timeout=5)
        assert await hers.receive_json_from(timeout=5) == {"alive": True}
    assert not await db.run(presence.Presence.objects.exists)


async def test_an_open_page_ends_when_the_session_is_private_again(talk, ada, colleague, bob_browser):
    async with line(talk.pk, bob_browser, after=talk.last_event) as his:
        await his.connect()
        await his.receive_json_from(timeout=5)  # it is open
        await db.run(commands.share_session, await db.run(lambda: ada.principal), talk.pk, PRIVATE)
        assert await last_of(his) == NOT_FOUND


async def test_an_open_page_ends_when_the_role_changes(talk, ada, bob, colleague, bob_browser, monkeypatch):
    monkeypatch.setattr(consumers.SessionConsumer, "RECHECK_SECONDS", 0.05)
    async with line(talk.pk, bob_browser, after=talk.last_event) as his:
        await his.connect()
        await his.receive_json_from(timeout=5)  # it is open
        await db.run(member, bob, ada, Role.VIEWER)
        assert await last_of(his) == CHANGED
