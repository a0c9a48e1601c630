"""Credentials that end: the console's token, and streams whose credentials end."""

import asyncio
import base64
import datetime
import json

import pytest
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.test import AsyncClient, RequestFactory
from django.utils import timezone

from apps.a2a.authentication import authenticate
from apps.accounts import authentication, encryption
from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.record.models import Task
from parley import db
from tests.a2a.calling import Caller, message
from tests.a2a.old_calling import OldCaller, OldResource, said, told
from tests.a2a.resting import Resource
from tests.a2a.test_queries import counted
from tests.a2a.test_streams import followed

pytestmark = pytest.mark.django_db(transaction=True)


CHALLENGE = 'Bearer realm="parley"'
TRY = "/agents/echo/try/token"


@pytest.fixture
async def browser(ada):
    client = AsyncClient()
    await client.aforce_login(ada)
    return client


@pytest.fixture
async def token(browser, echo):
    return (await browser.post(TRY)).json()["token"]


async def listed(token, slug="echo"):
    return await Caller(slug, token).call("ListTasks", {})


async def refused(token, slug="echo"):
    answer = await listed(token, slug)
    assert (answer.status, answer.reason) == (401, "UNAUTHENTICATED")
    assert answer.headers["WWW-Authenticate"].startswith(CHALLENGE)
    assert "new one" in answer.error["message"]


async def test_token_speaks_for_its_owner(worker, token, ada_at, public_echo):
    sent = (await Caller("echo", token).send(message("by token"))).result["task"]
    assert (await ada_at("echo").call("GetTask", {"id": sent["id"]})).result["id"] == sent["id"]
    assert [task["id"] for task in (await listed(token)).result["tasks"]] == [sent["id"]]
    await refused(token, "open-echo")
    assert (await Caller("open-echo").call("ListTasks", {})).status == 200
    assert (await Caller("", token).call("ListTasks", {"tenant": "echo"})).status == 401


async def test_token_expires_when_it_says(browser, echo, monkeypatch):
    given = await browser.post(TRY)
    left = datetime.datetime.fromisoformat(given.json()["expiresAt"]) - timezone.now()
    assert datetime.timedelta(minutes=9) < left <= authentication.TOKEN_LIFETIME
    assert "no-store" in given.headers["Cache-Control"]
    later = timezone.now() + authentication.TOKEN_LIFETIME
    monkeypatch.setattr("apps.accounts.authentication.timezone.now", lambda: later)
    await refused(given.json()["token"])


async def test_token_ends_with_session_password_and_account(browser, token, ada):
    elsewhere = AsyncClient()
    await elsewhere.aforce_login(ada)
    lasting = (await elsewhere.post(TRY)).json()["token"]
    await browser.post("/sign-out")
    await refused(token)
    assert (await listed(lasting)).status == 200
    await Session.objects.aupdate(expire_date=timezone.now())
    await refused(lasting)
    await Session.objects.aupdate(expire_date=timezone.now() + datetime.timedelta(days=1))
    assert (await listed(lasting)).status == 200
    await User.objects.filter(pk=ada.pk).aupdate(is_active=False)
    await refused(lasting)
    await User.objects.filter(pk=ada.pk).aupdate(is_active=True)
    assert (await listed(lasting)).status == 200
    ada.set_password("another one")
    await ada.asave()
    await refused(lasting)


async def test_changed_token_is_refused(token):
    for text in ("try_", "try_x", "try_aesgcm.00000000.AAAA", "try_aesgcm..", "try_ä"):
        assert (await listed(text.encode().decode("latin1"))).status == 401, text
    await refused(token[:-6] + ("A" if token[-6] != "A" else "B") + token[-5:])


async def test_token_hides_the_sign_in(browser, token, ada):
    key = browser.cookies["sessionid"].value
    content = token.rpartition(".")[2]
    assert key not in token
    assert key.encode() not in base64.urlsafe_b64decode(content + "=" * (-len(content) % 4))
    for headers in ({}, {"X-CSRFToken": "x"}):
        answer = await Caller("echo", client=browser).call("ListTasks", {}, headers)
        assert (answer.status, CHALLENGE in answer.headers["WWW-Authenticate"]) == (401, True)
    sealed = token.removeprefix("try_")
    with pytest.raises(encryption.CannotDecrypt):
        encryption.keyring().decrypt(sealed, "credentials.credential")
    assert json.loads(encryption.keyring().decrypt(sealed, authentication.ENCRYPTION_PURPOSE))[2] == "echo"


async def test_token_needs_access_to_the_agent(ada, browser, token, bob, echo):
    for access in (Agent.Access.WORKSPACE, Agent.Access.GROUPS):
        await Agent.objects.filter(pk=echo.pk).aupdate(access=access)
        assert (await browser.post(TRY)).status_code == 404
    answer = await listed(token)
    assert (answer.status, answer.reason) == (404, "AGENT_NOT_FOUND")
    assert (await browser.post("/agents/nobody/try/token")).status_code == 404
    assert (await AsyncClient().post(TRY)).status_code == 302
    foreign = AsyncClient(enforce_csrf_checks=True)
    await foreign.aforce_login(ada)
    assert [(await foreign.post(TRY)).status_code, (await foreign.get(TRY)).status_code] == [403, 405]


async def test_admitting_a_token_takes_one_query(token):
    assert await db.run(counted, authenticate, f"Bearer {token}", "echo", RequestFactory().get("/a2a/echo")) == 1

    def away():
        with pytest.raises(authentication.BadToken):
            authenticate(f"Bearer {token}", "other", RequestFactory().get("/a2a/other"))

    assert await db.run(counted, away) == 0


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


@pytest.mark.parametrize("begin", [json_rpc, old_json_rpc, front_door, http_json, old_http_json])
async def test_ended_key_ends_its_stream(ada_key, stepping, begin):
    stream = await begin("stepping", ada_key)
    await stream.is_looked_at()
    if begin in (http_json, old_http_json):
        await ApiKey.objects.aupdate(expires_at=timezone.now())
        last = await stream.last()
        error = json.loads(last[b"data"])["error"]
        assert (last[b"event"], error["code"], error["status"]) == (b"error", 401, "UNAUTHENTICATED")
    else:
        await db.run(lambda: ApiKey.objects.get().revoke())
        error = await stream.ends_with(401)
        assert (error["id"], "Make a new one" in error["error"]["message"]) == (7, True)
    assert followed() == 0
    assert (await db.run(Task.objects.get)).state == "submitted"


async def test_console_streams_end_with_token_and_session(ada, stepping, monkeypatch):
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


async def test_stream_outlives_an_absent_database(ada_key, stepping, monkeypatch):
    stream = await json_rpc("stepping", ada_key)
    asked = []

    def away(*_):
        asked.append(1)
        raise OperationalError("the server is restarting")

    with monkeypatch.context() as patched:
        patched.setattr("apps.a2a.operations.authenticate", away)
        await stream.is_looked_at()
        assert asked
    await Agent.objects.filter(pk=stepping.pk).aupdate(access=Agent.Access.GROUPS)
    await stream.ends_with(404)


async def test_rechecking_is_one_query_and_no_request(ada_at, ada_key, stepping, settings):
    stream = await json_rpc("stepping", ada_key)
    settings.REQUESTS_PER_MINUTE = 0
    await stream.is_looked_at()
    assert (await ada_at("stepping").call("ListTasks", {})).status == 429
    assert await db.run(counted, authenticate, f"Bearer {ada_key}", "stepping", authentication.OpenStream()) == 1
    await db.run(lambda: ApiKey.objects.get().revoke())
    await stream.ends_with(401)
