"""Access to agents, and the errors for others."""

import datetime

import pytest
from django.utils import timezone

import db
from apps.accounts.models import ApiKey
from apps.accounts.principals import READ, WRITE
from tests.a2a.calling import Caller, message

pytestmark = pytest.mark.django_db(transaction=True)

ASKING = ("GetTask", {"id": "a"})


def check_challenge(answer):
    assert answer.status == answer.code == 401
    assert answer.reason == "UNAUTHENTICATED"
    assert answer.headers["WWW-Authenticate"].startswith('Bearer realm="parley", ')
    assert answer.body["id"] is None


@pytest.fixture
def refused(ada):
    good, text = ApiKey.issue(ada, "good")
    expired = ApiKey.issue(ada, "expired", lifetime=datetime.timedelta(seconds=-1))[1]
    revoked, revoked_text = ApiKey.issue(ada, "revoked")
    revoked.revoke()
    return {
        "an expired key": f"Bearer {expired}",
        "a revoked key": f"Bearer {revoked_text}",
        "a wrong secret": f"Bearer {text[:-1]}{'a' if text[-1] != 'a' else 'b'}",
        "no secret": f"Bearer parley_{good.prefix}_",
        "a key of another make": "Bearer sk-12345",
        "odd characters": "Bearer parley_%00'\"_ü",
        "another scheme": f"Basic {text}",
        "no scheme": text,
        "no key": "Bearer ",
    }


async def test_a_header_that_will_not_do_is_refused_with_a_challenge(refused, echo, public_echo, anybody_at, subtests):
    for what, header in refused.items():
        for slug in ("echo", "open-echo"):
            with subtests.test(f"{what} at {slug}"):
                check_challenge(await anybody_at(slug).call(*ASKING, {"Authorization": header}))


async def test_without_a_key_nothing_is_read_but_by_an_open_agent(ada, echo, public_echo, anybody_at):
    caller = anybody_at("echo")
    check_challenge(await caller.post(b"{"))
    check_challenge(await caller.call("SendMessage", {"message": message()}))
    await db.run(caller.client.force_login, ada)
    check_challenge(await caller.call(*ASKING))  # a session cookie is no credential
    assert (await anybody_at("open-echo").call(*ASKING)).code == -32001


async def test_the_key_of_somebody_who_left_is_refused(ada, ada_at, echo):
    assert (await ada_at("echo").call(*ASKING)).code == -32001
    ada.is_active = False
    await ada.asave()
    check_challenge(await ada_at("echo").call(*ASKING))


async def test_an_agent_is_there_for_whom_it_is_open_to_alone(club, echo, ada_at, bob_at, anybody_at, subtests):
    assert (await ada_at("club").call(*ASKING)).code == -32001
    echo.is_enabled = False
    await echo.asave()
    for caller_at in (bob_at, anybody_at):
        strangers = [await caller_at(slug).call(*ASKING) for slug in ("club", "echo", "no-such-agent")]
        assert {(one.status, one.code) for one in strangers} == {(404, 404)}
        assert strangers[0].body == strangers[1].body == strangers[2].body
    for slug in ("nobody", "NOBODY", "a%00b", "%F0%9F%98%80", ".well-known", "..", "x" * 300):
        with subtests.test(slug):
            for caller in (ada_at(slug), anybody_at(slug)):
                answer = await caller.call(*ASKING)
                assert answer.status == answer.code == 404
                assert answer.error["message"]


async def test_the_use_of_a_key_is_noted(ada, ada_at, echo):
    await ada_at("echo").call(*ASKING)

    def noted():
        return ApiKey.objects.get(user=ada).last_used_at

    for _ in range(50):  # another thread writes it after the answer
        if await db.run(noted):
            break
    assert timezone.now() - await db.run(noted) < datetime.timedelta(minutes=1)


async def test_a_key_does_what_its_scopes_allow(worker, ada, echo):
    reading, writing = [Caller("echo", (await db.run(ApiKey.issue, ada, "k", scopes=[s]))[1]) for s in (READ, WRITE)]
    task = (await writing.send(message("hi"))).result["task"]
    about = {"taskId": task["id"], "id": "a", "url": "https://hooks.invalid/hook"}
    for allowed, (method, params) in (
        (reading, ("GetTask", {"id": task["id"]})),
        (reading, ("ListTasks", {})),
        (reading, ("ListTaskPushNotificationConfigs", about)),
        (reading, ("contexts/list", {})),
        (writing, ("SendMessage", {"message": message("hi")})),
        (writing, ("CreateTaskPushNotificationConfig", about)),
        (writing, ("DeleteTaskPushNotificationConfig", about)),
        (writing, ("tasks/feedback", {"taskId": task["id"], "rating": 5})),
        (writing, ("CancelTask", {"id": task["id"]})),
        (writing, ("contexts/clear", {"contextId": task["contextId"]})),
    ):
        other = await (writing if allowed is reading else reading).call(method, params)
        assert (other.status, other.code, other.reason) == (403, 403, "PERMISSION_DENIED"), method
        assert (await allowed.call(method, params)).status == 200, method
    with pytest.raises(ValueError, match="There is no scope tasks:sing"):
        await db.run(lambda: ApiKey.issue(ada, "key", scopes=["tasks:sing"]))
