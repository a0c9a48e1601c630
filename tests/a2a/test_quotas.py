"""Callers over their quota are told to wait, and nothing else happens."""

import json

import pytest
from asgiref.testing import ApplicationCommunicator

import db
from apps.accounts import quotas
from apps.record.models import Task
from config.asgi import application
from tests.a2a.agents import steps
from tests.a2a.calling import Caller, message
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)

ASKING = ("GetTask", {"id": "a"})


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


async def test_a_caller_that_asks_too_often_is_told_when_to_go_on(ada_at, ada_key, bob_at, echo, settings):
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


async def test_anonymous_callers_of_one_address_are_counted_together(anybody_at, ada_at, public_echo, settings):
    settings.ANONYMOUS_REQUESTS_PER_MINUTE = 2
    await anybody_at("open-echo").call(*ASKING)
    await anybody_at("open-echo").call("ListTasks", {})
    check_refused(await anybody_at("open-echo").call(*ASKING))
    assert (await ada_at("open-echo").call(*ASKING)).code == -32001
    elsewhere = scope_of("/a2a/open-echo") | {"client": ("192.0.2.7", 0)}
    answer = ApplicationCommunicator(application, elsewhere)
    asked = {"jsonrpc": "2.0", "id": 1, "method": ASKING[0], "params": ASKING[1]}
    await answer.send_input({"type": "http.request", "body": json.dumps(asked).encode()})
    assert (await answer.receive_output(10))["status"] == 200
    assert json.loads((await answer.receive_output(10))["body"])["error"]["code"] == -32001
    await answer.wait(10)


async def test_keys_that_will_not_do_count_for_the_address(echo, settings):
    settings.ANONYMOUS_REQUESTS_PER_MINUTE = 2
    wrong = Caller("echo", "parley_000000000000_wrong")
    assert [(await wrong.call(*ASKING)).status for _ in range(3)] == [401, 401, 429]


async def test_too_many_streams_are_refused_before_their_first_event(worker, ada_at, ada_key, stepping, settings):
    settings.STREAMS_PER_CALLER = 1
    calls, rest = ada_at("stepping"), Resource("stepping", ada_key)
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


async def test_a_stream_whose_client_hangs_up_makes_room(worker, ada_key, stepping, settings):
    settings.STREAMS_PER_CALLER = 1
    for _ in range(2):
        stream = ApplicationCommunicator(application, scope_of("/a2a/stepping/message:stream", ada_key))
        body = json.dumps({"message": message("1")}).encode()
        await stream.send_input({"type": "http.request", "body": body})
        assert (await stream.receive_output(10))["status"] == 200
        assert b"task" in (await stream.receive_output(10))["body"]
        await stream.send_input({"type": "http.disconnect"})
        await stream.wait(10)
    steps.allow(10)


def scope_of(path, key=""):
    headers = {"Host": "localhost", "A2A-Version": "1.0", "Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": named}


async def test_a_stream_that_is_refused_takes_no_room(ada_at, echo, settings):
    settings.STREAMS_PER_CALLER = 1
    for _ in range(3):
        assert (await ada_at("echo").call("SubscribeToTask", {"id": "a"})).reason == "TASK_NOT_FOUND"
    for _ in range(3):
        assert (await ada_at("echo").call("SendStreamingMessage", {})).code == -32602
