"""A stream ends when its caller's credentials do; the last event says why."""

import asyncio
import datetime
import json

import pytest
from django.db import OperationalError
from django.test import AsyncClient
from django.utils import timezone

import db
from apps.a2a.authentication import authenticate
from apps.accounts import authentication
from apps.accounts.models import ApiKey
from apps.agents.models import Agent
from apps.record.models import Task
from tests.a2a.calling import Caller, message
from tests.a2a.old_calling import OldCaller, OldResource, said, told
from tests.a2a.resting import Resource
from tests.a2a.test_disconnecting import followed
from tests.a2a.test_queries import counted

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Check credentials a hundred times a second."""
    monkeypatch.setattr("apps.record.wire.RECHECK_SECONDS", 0.01)
    monkeypatch.setattr("apps.record.wire.HEARTBEAT_SECONDS", 0.01)


class Stream:
    def __init__(self, response):
        assert response.streaming, response.content
        self._chunks = response.streaming_content
        self.frames = []

    async def more(self):
        """False at the end."""
        async for chunk in self._chunks:
            self.frames += [frame for frame in chunk.split(b"\n\n") if frame]
            return True
        return False

    async def is_looked_at(self, times=5):
        """The stream continues through so many keep-alives."""
        signs = 0
        while signs < times:
            assert await self.more(), self.frames
            signs += self.frames[-1].startswith(b":")

    async def last(self):
        async with asyncio.timeout(60):
            while await self.more():
                pass
        return dict(line.split(b": ", 1) for line in self.frames[-1].split(b"\n"))

    async def ends_with(self, code):
        data = json.loads((await self.last())[b"data"])
        assert data["error"]["code"] == code
        return data


async def json_rpc(slug, key):
    return Stream(await Caller(slug, key).open("SendStreamingMessage", {"message": message("3")}))


async def front_door(slug, key):
    return Stream(await Caller("", key).open("SendStreamingMessage", {"tenant": slug, "message": message("3")}))


async def http_json(slug, key):
    return Stream(await Resource(slug, key).send("POST", "message:stream", {"message": message("3")}))


async def old_json_rpc(slug, key):
    return Stream(await OldCaller(slug, key).open("message/stream", {"message": said("3")}))


async def old_http_json(slug, key):
    return Stream(await OldResource(slug, key).send("POST", "v1/message:stream", {"message": told("3")}))


@pytest.mark.parametrize("begin", [json_rpc, old_json_rpc, front_door])
async def test_a_revoked_key_ends_a_stream_with_an_error_of_its_request(ada_key, stepping, begin):
    stream = await begin("stepping", ada_key)
    await stream.is_looked_at()
    await db.run(lambda: ApiKey.objects.get().revoke())
    error = await stream.ends_with(401)
    assert error["id"] == 7
    assert "Make a new one" in error["error"]["message"]
    assert followed() == 0
    assert (await db.run(Task.objects.get)).state == "submitted"


@pytest.mark.parametrize("begin", [http_json, old_http_json])
async def test_a_key_that_expires_ends_a_stream_with_an_event_of_its_own(ada_key, stepping, begin):
    stream = await begin("stepping", ada_key)
    await stream.is_looked_at()
    await ApiKey.objects.aupdate(expires_at=timezone.now())
    last = await stream.last()
    assert last[b"event"] == b"error"
    error = json.loads(last[b"data"])["error"]
    assert (error["code"], error["status"]) == (401, "UNAUTHENTICATED")


async def test_expiring_and_signing_out_end_the_streams_of_the_console(ada, stepping, monkeypatch):
    browser = AsyncClient()
    await browser.aforce_login(ada)

    async def begun():
        token = (await browser.post("/agents/stepping/try/token")).json()["token"]
        return await json_rpc("stepping", token)

    stream = await begun()
    await stream.is_looked_at()
    with monkeypatch.context() as patch:
        later = timezone.now() + authentication.TOKEN_LIFETIME + datetime.timedelta(seconds=1)
        patch.setattr("apps.accounts.authentication.timezone.now", lambda: later)
        assert "has expired" in (await stream.ends_with(401))["error"]["message"]
    stream = await begun()
    await stream.is_looked_at()
    await browser.post("/sign-out")
    await stream.ends_with(401)


async def test_an_agent_that_is_closed_to_a_caller_ends_their_stream(ada_key, stepping):
    stream = await json_rpc("stepping", ada_key)
    await stream.is_looked_at()
    await Agent.objects.filter(pk=stepping.pk).aupdate(access=Agent.Access.GROUPS)
    await stream.ends_with(404)


async def test_a_stream_outlives_a_database_that_is_away_when_it_is_looked_at(ada_key, stepping, monkeypatch):
    stream = await json_rpc("stepping", ada_key)
    asked = []

    def away(*_):
        asked.append(1)
        raise OperationalError("the server is restarting")

    with monkeypatch.context() as patched:
        patched.setattr("apps.a2a.operations.authenticate", away)
        await stream.is_looked_at()
        assert asked
    await db.run(lambda: ApiKey.objects.get().revoke())
    await stream.ends_with(401)


async def test_looking_again_is_one_query_and_no_request(ada_at, ada_key, stepping, settings):
    stream = await json_rpc("stepping", ada_key)
    settings.REQUESTS_PER_MINUTE = 0
    await stream.is_looked_at()
    assert (await ada_at("stepping").call("ListTasks", {})).status == 429
    assert await db.run(counted, authenticate, f"Bearer {ada_key}", "stepping", authentication.OpenStream()) == 1
    await db.run(lambda: ApiKey.objects.get().revoke())
    await stream.ends_with(401)
