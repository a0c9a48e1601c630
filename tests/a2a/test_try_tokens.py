"""The console's token: one agent, A2A only, ten minutes, signed-in owner."""

import base64
import datetime
import json

import pytest
from django.contrib.sessions.models import Session
from django.test import AsyncClient, RequestFactory
from django.utils import timezone

import db
from apps.a2a.authentication import authenticate
from apps.accounts import authentication, encryption
from apps.accounts.models import User
from apps.agents.models import Agent
from tests.a2a.calling import Caller, message
from tests.a2a.test_queries import counted

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


async def test_it_speaks_for_its_owner_at_its_agent(worker, token, ada_at):
    sent = (await Caller("echo", token).send(message("by token"))).result["task"]
    assert sent["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (await ada_at("echo").call("GetTask", {"id": sent["id"]})).result["id"] == sent["id"]
    assert [task["id"] for task in (await listed(token)).result["tasks"]] == [sent["id"]]


async def test_it_says_for_how_long_it_is_good_and_expires(browser, echo, monkeypatch):
    given = await browser.post(TRY)
    left = datetime.datetime.fromisoformat(given.json()["expiresAt"]) - timezone.now()
    assert datetime.timedelta(minutes=9) < left <= authentication.TOKEN_LIFETIME
    assert "no-store" in given.headers["Cache-Control"]
    later = timezone.now() + authentication.TOKEN_LIFETIME
    monkeypatch.setattr("apps.accounts.authentication.timezone.now", lambda: later)
    await refused(given.json()["token"])


async def test_no_other_door_takes_it_and_no_other_agent_even_one_that_is_open_to_all(token, public_echo):
    await refused(token, "open-echo")
    assert (await Caller("open-echo").call("ListTasks", {})).status == 200
    for path in ("/api/v1/sessions", "/api/v1/agents", "/api/v1/agents/echo"):
        answer = await AsyncClient().get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401, path
    front_door = await Caller("", token).call("ListTasks", {"tenant": "echo"})
    assert (front_door.status, CHALLENGE in front_door.headers["WWW-Authenticate"]) == (401, True)


async def test_it_ends_with_the_sign_in_the_session_the_password_and_the_account(browser, token, ada):
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
    ada.set_password("another one")
    await ada.asave()
    await refused(lasting)


async def test_what_is_no_token_or_was_changed_is_refused(token):
    for text in ("try_", "try_x", "try_aesgcm.00000000.AAAA", "try_aesgcm..", "try_ä"):
        assert (await listed(text.encode().decode("latin1"))).status == 401, text
    await refused(token[:-6] + ("A" if token[-6] != "A" else "B") + token[-5:])


async def test_the_sign_in_cannot_be_read_out_of_it_and_is_nobody_over_a2a(browser, token):
    key = browser.cookies["sessionid"].value
    content = token.rpartition(".")[2]
    assert key not in token
    assert key.encode() not in base64.urlsafe_b64decode(content + "=" * (-len(content) % 4))
    for headers in ({}, {"X-CSRFToken": "x"}):
        answer = await Caller("echo", client=browser).call("ListTasks", {}, headers)
        assert (answer.status, CHALLENGE in answer.headers["WWW-Authenticate"]) == (401, True)


async def test_only_who_may_use_the_agent_is_given_one_and_it_is_good_for_as_long(browser, token, bob, echo):
    for access in (Agent.Access.WORKSPACE, Agent.Access.GROUPS):
        await Agent.objects.filter(pk=echo.pk).aupdate(access=access)
        assert (await browser.post(TRY)).status_code == 404
    answer = await listed(token)
    assert (answer.status, answer.reason) == (404, "AGENT_NOT_FOUND")
    assert (await browser.post("/agents/nobody/try/token")).status_code == 404
    assert (await AsyncClient().post(TRY)).status_code == 302


async def test_it_is_given_to_our_own_pages_alone(ada, echo):
    client = AsyncClient(enforce_csrf_checks=True)
    await client.aforce_login(ada)
    assert (await client.post(TRY)).status_code == 403
    assert (await client.get(TRY)).status_code == 405


async def test_admitting_its_owner_takes_one_query(token):
    assert await db.run(counted, authenticate, f"Bearer {token}", "echo", RequestFactory().get("/a2a/echo")) == 1

    def away():
        with pytest.raises(authentication.BadToken):
            authenticate(f"Bearer {token}", "other", RequestFactory().get("/a2a/other"))

    assert await db.run(counted, away) == 0


def test_a_token_is_sealed_for_its_place(ada):
    text, _ = authentication.issue_access_token(ada, "a-session", "echo")
    with pytest.raises(encryption.CannotDecrypt):
        encryption.keyring().decrypt(text.removeprefix("try_"), "credentials.credential")
    assert (
        json.loads(encryption.keyring().decrypt(text.removeprefix("try_"), authentication.ENCRYPTION_PURPOSE))[2]
        == "echo"
    )
