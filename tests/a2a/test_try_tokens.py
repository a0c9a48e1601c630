"""Credentials that end: the console's token, and streams whose credentials end."""

import asyncio
import base64
import datetime
import json

import pytest
from django.db import OperationalError
from django.test import AsyncClient
from django.utils import timezone

from apps.accounts import authentication, encryption
from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.record.models import Task
from parley import db
from tests.a2a.calling import Caller, message
from tests.a2a.old_calling import OldResource, told
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
    await User.objects.filter(pk=ada.pk).aupdate(is_active=False)
    await refused(lasting)
    await User.objects.filter(pk=ada.pk).aupdate(is_active=True)
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


async def old_http_json(slug, key):
    return Stream(await OldResource(slug, key).send("POST", "v1/message:stream", {"message": told("3")}))


@pytest.mark.parametrize("begin", [json_rpc, old_http_json])
async def test_ended_key_ends_its_stream(ada_key, stepping, begin):
    stream = await begin("stepping", ada_key)
    await stream.is_looked_at()
    if begin is old_http_json:
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
