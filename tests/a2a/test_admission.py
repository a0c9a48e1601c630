"""Access to agents by keys, scopes, roles and quotas, and the errors for others."""

import datetime

import pytest

from apps.accounts.models import ApiKey
from apps.accounts.principals import READ, WRITE
from apps.accounts.requests import quotas
from apps.agents.models import Agent
from apps.record.models import Task
from parley import db
from tests.a2a.agents import steps
from tests.a2a.calling import Caller, message
from tests.a2a.resting import Resource
from tests.clients.calling import Caller as Client

pytestmark = pytest.mark.django_db(transaction=True)


ASKING = ("GetTask", {"id": "a"})
NOBODY = "00000000-0000-4000-8000-000000000000"


def check_challenge(answer):
    assert answer.status == answer.code == 401
    assert answer.reason == "UNAUTHENTICATED"
    assert answer.headers["WWW-Authenticate"].startswith('Bearer realm="parley", ')
    assert answer.body["id"] is None


async def issued(user, **fields):
    return (await db.run(lambda: ApiKey.issue(user, "k", **fields)))[1]


@pytest.fixture
def refused(ada):
    text = ApiKey.issue(ada, "good")[1]
    expired = ApiKey.issue(ada, "expired", lifetime=datetime.timedelta(seconds=-1))[1]
    revoked, revoked_text = ApiKey.issue(ada, "revoked")
    revoked.revoke()
    return {
        "an expired key": f"Bearer {expired}",
        "a revoked key": f"Bearer {revoked_text}",
        "a wrong secret": f"Bearer {text[:-1]}{'a' if text[-1] != 'a' else 'b'}",
        "odd characters": "Bearer parley_%00'\"_ü",
        "another scheme": f"Basic {text}",
    }


async def test_unusable_header_is_challenged(refused, ada, ada_at, echo, public_echo, anybody_at, subtests):
    for what, header in refused.items():
        for slug in ("echo", "open-echo"):
            with subtests.test(f"{what} at {slug}"):
                check_challenge(await anybody_at(slug).call(*ASKING, {"Authorization": header}))
    caller = anybody_at("echo")
    check_challenge(await caller.post(b"{"))
    check_challenge(await caller.call("SendMessage", {"message": message()}))
    await db.run(caller.client.force_login, ada)
    check_challenge(await caller.call(*ASKING))  # a session cookie is no credential
    assert (await anybody_at("open-echo").call(*ASKING)).code == -32001
    assert (await ada_at("echo").call(*ASKING)).code == -32001
    ada.is_active = False
    await ada.asave()
    check_challenge(await ada_at("echo").call(*ASKING))


async def test_key_does_what_its_scopes_allow(worker, ada, echo):
    reading, writing = [Caller("echo", await issued(ada, scopes=[scope])) for scope in (READ, WRITE)]
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
        await issued(ada, scopes=["tasks:sing"])


def seen(answer):
    return answer.status, getattr(answer, "content", None) or {**answer.body, "id": None}


async def test_limited_key_knows_its_agents_alone(worker, ada, ada_key, ada_at, echo, hello, public_echo):
    key = await issued(ada, agents=["echo"])
    assert (await Caller("echo", key).send(message("hi"))).result["task"]
    assert (await ada_at("hello").send(message("hi"))).result
    unknown = await Caller("nobody", key).send(message("hi"))
    for slug in ("hello", "open-echo"):
        assert seen(await Caller(slug, key).send(message("hi"))) == seen(unknown)
    at_the_door = [Caller("", key).call("SendMessage", {"message": message(), "tenant": t}) for t in ("hello", "no")]
    assert seen(await at_the_door[0]) == seen(await at_the_door[1])
    limited, everything = Client(key), Client(ada_key)
    sessions = [(await one.get("/sessions")).body["items"] for one in (limited, everything)]
    [hidden] = {one["id"] for one in sessions[1]} - {one["id"] for one in sessions[0]}
    assert seen(await limited.get(f"/sessions/{hidden}")) == seen(await limited.get(f"/sessions/{NOBODY}"))
    await Agent.objects.filter(pk=echo.pk).aupdate(slug="renamed")
    assert (await limited.get("/agents")).body["items"] == []


@pytest.fixture(autouse=True)
def fresh(monkeypatch, settings):
    """No requests counted yet, and the minute does not end."""
    settings.CHANNEL_LAYER_URL = "memory://"
    monkeypatch.setattr(quotas, "request_counter", quotas.RequestCounter())
    monkeypatch.setattr(quotas, "stream_counter", quotas.StreamCounter())
    monkeypatch.setattr(quotas, "time", lambda: 6010.0)


def check_refused(answer):
    assert answer.status == answer.error["code"] == 429
    assert answer.reason == "RESOURCE_EXHAUSTED"
    assert int(answer.headers["Retry-After"]) > 0


async def test_caller_over_its_quota_must_wait(ada_at, ada_key, bob_at, echo, settings):
    settings.REQUESTS_PER_MINUTE = 3
    for _ in range(3):
        assert (await ada_at("echo").call(*ASKING)).code == -32001
    refused = await ada_at("echo").call(*ASKING)
    check_refused(refused)
    assert refused.headers["Retry-After"] == "50"
    check_refused(await Resource("echo", ada_key).ask("GET", "tasks"))
    check_refused(await Caller("", ada_key).call("ListTasks", {"tenant": "echo"}))
    check_refused(await ada_at("echo").send(message()))
    assert not await db.run(Task.objects.exists)
    assert (await bob_at("echo").call(*ASKING)).code == -32001


async def test_streams_over_the_limit_never_begin(worker, ada_at, ada_key, stepping, settings):
    settings.STREAMS_PER_CALLER = 1
    calls, rest = ada_at("stepping"), Resource("stepping", ada_key)
    assert (await calls.call("SendStreamingMessage", {})).code == -32602, "what is refused takes no room"
    stream = calls.stream("SendStreamingMessage", {"message": message("1")})
    task = (await anext(stream))[1]["task"]["id"]
    check_refused(await calls.call("SubscribeToTask", {"id": task}))
    check_refused(await rest.ask("GET", f"tasks/{task}:subscribe"))
    check_refused(await rest.ask("POST", "message:stream", {"message": message("1")}))
    assert await db.run(Task.objects.count) == 1
    assert (await calls.call("GetTask", {"id": task})).result["id"] == task
    await stream.aclose()
    again = rest.stream("GET", f"tasks/{task}:subscribe")
    assert (await anext(again))[1]["task"]["id"] == task
    steps.allow(10)
    assert [event async for event in again]
    assert (await calls.call("SubscribeToTask", {"id": task})).reason == "UNSUPPORTED_OPERATION"
