"""Credentials that end: the console's token, and streams whose credentials end."""

import asyncio
import base64
import datetime
import json

import pytest
from django.test import AsyncClient
from django.utils import timezone

from apps.accounts.models import ApiKey, User
from apps.accounts.requests import authentication
from apps.accounts.secrets import encryption
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
    monkeypatch.setattr("apps.accounts.requests.authentication.timezone.now", lambda: later)
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


async def test_ended_key_ends_its_streams(ada_key, stepping, monkeypatch):
    monkeypatch.setattr("apps.record.wire.RECHECK_SECONDS", 0.01)
    monkeypatch.setattr("apps.record.wire.HEARTBEAT_SECONDS", 0.01)
    responses = (
        await Caller("stepping", ada_key).open("SendStreamingMessage", {"message": message("3")}),
        await OldResource("stepping", ada_key).send("POST", "v1/message:stream", {"message": told("3")}),
    )
    streams = [aiter(response.streaming_content) for response in responses]
    for chunks in streams:
        while not (await anext(chunks)).startswith(b":"):
            pass
    await db.run(lambda: ApiKey.objects.get().revoke())
    async with asyncio.timeout(60):
        ends = [[chunk async for chunk in chunks][-1] for chunks in streams]
    assert [json.loads(end.rpartition(b"data: ")[2])["error"]["code"] for end in ends] == [401, 401]
    assert b"event: error" in ends[1]
    assert followed() == 0
    assert {task.state async for task in Task.objects.all()} == {"submitted"}
