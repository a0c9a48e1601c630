"""Errors of JSON-RPC; tests/conformance has the whole table."""

import json
from typing import Any

import pytest
from django.conf import settings

import db
from apps.engine import activity
from apps.installation.models import Activity
from apps.record.models import Event, Task
from tests.a2a.calling import message

pytestmark = pytest.mark.django_db(transaction=True)

NO_TASK = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


def rpc(method: str = "GetTask", params: Any = None, **fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {"id": NO_TASK}, **fields}


def parts(*parts: Any) -> dict[str, Any]:
    return rpc("SendMessage", {"message": message(parts=list(parts))})


def nested(levels: int) -> bytes:
    """A request with this depth of nesting."""
    data = "[" * (levels - 5) + "]" * (levels - 5)  # request, params, message, parts and part are five
    return json.dumps(parts({"data": "@"})).replace('"@"', data).encode()


@pytest.fixture
def calls(ada_at, countdown):
    return ada_at("countdown")


@pytest.fixture(autouse=True)
def nothing_is_stored(db):
    yield
    assert not Task.objects.exists()
    assert not Event.objects.exists()


def check_error(answer: Any, code: int, request_id: Any = 7, status: int = 200) -> None:
    assert answer.code == code, answer.body
    assert answer.status == status
    assert (answer.body["jsonrpc"], answer.body["id"]) == ("2.0", request_id)
    assert set(answer.body) == {"jsonrpc", "id", "error"}
    assert answer.error["message"]
    assert "Traceback" not in json.dumps(answer.body)


async def test_a_stream_that_cannot_begin_is_a_plain_error(calls, ada_at, quiet, subtests):
    for method in ("SendStreamingMessage", "SubscribeToTask"):
        with subtests.test(method):
            check_error(await calls.post(rpc(method, {"message": {}, "id": NO_TASK, "tenant": "x"})), -32602)
            answer = await ada_at("quiet").post(rpc(method, {"message": message(), "id": NO_TASK}))
            check_error(answer, -32004)
            assert answer.reason == "UNSUPPORTED_OPERATION"


async def test_an_id_comes_back_as_it_was(calls, subtests):
    for request_id in ("", "ü", 0, -5, 2**70, None):
        with subtests.test(repr(request_id)):
            answer = await calls.post(rpc(id=request_id))
            assert answer.body["id"] == request_id
            assert type(answer.body["id"]) is type(request_id)


async def test_sixty_four_levels_are_read_and_no_more(calls):
    check_error(await calls.post(nested(65)), -32700, request_id=None)
    assert (await calls.post(nested(64).replace(b"ROLE_USER", b"ROLE_AGENT"))).fields == ["message.role"]


async def test_every_way_to_say_json_is_taken_and_a_trailing_slash(calls, subtests):
    for content_type in ("application/json; charset=utf-8", "application/a2a+json", "APPLICATION/JSON"):
        with subtests.test(content_type):
            check_error(await calls.post(rpc(), content_type=content_type), -32001)
    check_error(await calls.post(rpc(), path="/a2a/countdown/"), -32001)


async def test_an_unforeseen_error_shows_nothing_of_what_is_inside(calls, monkeypatch, caplog):
    def fails(*args: Any) -> Any:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr("apps.record.lookup.read_agent_task", fails)
    answer = await calls.post(rpc())
    check_error(answer, -32603)
    assert "secret" not in json.dumps(answer.body)
    assert "secret of the house" in caplog.text


async def test_many_mistakes_are_listed_only_so_far(calls):
    answer = await calls.post(parts(*[{"text": 5}] * settings.MAX_PARTS))
    check_error(answer, -32602)
    assert len(answer.fields) == 20


async def test_a_drained_agent_is_unavailable_for_a_while(calls, countdown):
    await db.run(activity.set_activity, countdown, Activity.DRAINING)
    answer = await calls.send(message())
    check_error(answer, 503, answer.body["id"], 503)
    assert answer.reason == "UNAVAILABLE"
    assert int(answer.headers["Retry-After"]) >= 30
