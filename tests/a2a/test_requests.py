"""Forms, versions, extensions and errors of JSON-RPC and HTTP+JSON; tests/conformance has the table of wrong inputs."""

import json
from typing import Any

import pytest
from django.conf import settings

from apps.engine import activity
from apps.installation.models import Activity
from apps.record.models import Context, Event
from parley import db
from tests.a2a.calling import message
from tests.a2a.old_calling import said

pytestmark = pytest.mark.django_db(transaction=True)


NO_TASK = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
ASKING = ("GetTask", {"id": "a"})
EXTENSION = "https://example.com/ext/timestamps/v1"


def rpc(method: str = "GetTask", params: Any = None, **fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {"id": NO_TASK}, **fields}


async def test_errors_store_and_reveal_nothing(ada_at, countdown, monkeypatch, caplog):
    calls = ada_at("countdown")
    for request_id in ("ü", 0, 2**70, None):
        answer = await calls.post(rpc(id=request_id))
        assert (answer.body["id"], type(answer.body["id"])) == (request_id, type(request_id))
    many = await calls.send(message(parts=[{"text": 5}] * settings.MAX_PARTS))
    assert (many.code, len(many.fields)) == (-32602, 20), "mistakes are listed so far"
    await db.run(activity.set_activity, countdown, Activity.DRAINING)
    drained = await calls.send(message())
    assert (drained.status, drained.code, drained.reason) == (503, 503, "UNAVAILABLE")
    assert int(drained.headers["Retry-After"]) >= 30

    def fails(*args: Any) -> Any:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr("apps.record.reading.lookup.read_agent_task", fails)
    answer = await calls.post(rpc())
    assert (answer.status, answer.code, "secret" in json.dumps(answer.body)) == (200, -32603, False)
    assert "secret of the house" in caplog.text
    assert not await Event.objects.aexists()


async def test_version_is_named_by_header_or_query(ada_at, ada_rests, echo):
    assert (await ada_rests("echo", version="").ask("GET", "tasks?A2A-Version=1.0")).status == 200
    many = "&".join(f"p{n}=1" for n in range(2000))
    assert (await ada_rests("echo", version="").ask("GET", f"tasks?{many}")).status == 400
    for version in ("1.0.7", " 1.0 "):
        assert (await ada_at("echo", version=version).call(*ASKING)).code == -32001, version
    for version, code in (("", -32001), ("2.0", -32009)):
        assert (await ada_at("echo", version=version).post(rpc(), path="/a2a/echo?A2A-Version=1.0")).code == code
    for version in ("1.1", "0.2", "1", "1.0.0.0", "v1.0"):
        answer = await ada_at("echo", version=version).call(*ASKING)
        assert (answer.code, answer.reason) == (-32009, "VERSION_NOT_SUPPORTED"), version
        assert "A2A-Version: 1.0" in answer.error["message"]


async def test_named_extensions_are_activated(ada_at, ada_rests, old_at, worker, echo):
    echo.capabilities = {"streaming": True, "extensions": [{"uri": EXTENSION}]}
    await echo.asave()
    for header in ("A2A-Extensions", "X-A2A-Extensions"):
        answer = await ada_at("echo").call("ListTasks", {}, {header: f"https://example.com/other, {EXTENSION}"})
        assert answer.headers["A2A-Extensions"] == EXTENSION
    answer = await ada_at("echo").call("ListTasks", {}, {"A2A-Extensions": "https://example.com/other"})
    assert "A2A-Extensions" not in answer.headers
    answer = await old_at("echo").call("message/send", {"message": said()}, {"X-A2A-Extensions": EXTENSION})
    assert answer.headers["X-A2A-Extensions"] == EXTENSION
    echo.capabilities = {"extensions": [{"uri": EXTENSION, "required": True}]}
    await echo.asave()
    answer = await ada_at("echo").call("ListTasks", {})
    assert (answer.code, answer.reason) == (-32008, "EXTENSION_SUPPORT_REQUIRED")
    assert EXTENSION in answer.error["message"]
    assert (await ada_at("echo").call("ListTasks", {}, {"A2A-Extensions": EXTENSION})).result["tasks"]
    answer = await ada_rests("echo").ask("GET", "tasks")
    assert (answer.status, answer.reason) == (400, "EXTENSION_SUPPORT_REQUIRED")
    named = await ada_rests("echo").ask("GET", "tasks", headers={"A2A-Extensions": EXTENSION})
    assert (named.status, named.headers["A2A-Extensions"]) == (200, EXTENSION)


@pytest.fixture
def kept(worker, ada_at, echo):
    async def send(**fields):
        return (await ada_at("echo").send(message(**fields))).result["task"]["history"][0]

    return send


async def test_forms_of_json_are_read_as_one(worker, ada_at, echo):
    part = {"text": "hi", "media_type": "text/markdown"}
    sent = {
        "message": {"message_id": "m", "role": 1, "context_id": "here", "reference_task_ids": [], "parts": [part]},
        "configuration": {"history_length": "5", "accepted_output_modes": ["text/plain"]},
    }
    task = (await ada_at("echo").call("SendMessage", sent)).result["task"]
    said = task["history"][0]
    assert (task["contextId"], said["role"], said["parts"][0]["mediaType"]) == ("here", "ROLE_USER", "text/markdown")


async def test_messages_are_kept_without_unknown_fields(kept):
    absent = {"contextId": None, "taskId": None, "metadata": None}
    part = {"text": "", "kind": "text", "size": 5, "raw": None}
    shown = await kept(kind="message", parts=[part], unknown={"a": 1}, **absent)
    assert set(shown) == {"messageId", "role", "parts", "contextId", "taskId"}
    assert shown["parts"] == [{"text": ""}]
    names = {"a.csv": "a.csv", "/etc/passwd": "passwd", "..\\..\\b.txt": "b.txt", "c/..": "", "d/": "", "ü 1": "ü 1"}
    sent = [{"raw": written} for written in ("+/8=", "-_8=", "+/8", "-_8")]
    parts = (await kept(parts=[*sent, *({"text": "x", "filename": name} for name in names)]))["parts"]
    assert parts[:4] == [{"raw": "+/8="}] * 4
    assert [part.get("filename", "") for part in parts[4:]] == [*names.values()]


@pytest.mark.services("what JSON holds is each database's own")
async def test_every_character_and_number_comes_back(kept):
    text = "".join(map(chr, range(1, 0x250))) + "\u2028\ufffe\U0001f600\U0010ffff"
    numbers = {"exact": 2**53 - 1, "large": 2**60 + 1, "huge": 10**300, "small": 1e-300, "whole": 5, "half": 0.5}
    shown = (await kept(parts=[{"text": text}, {"data": numbers}]))["parts"]
    assert shown[0] == {"text": text}
    # The database may write a double differently; as doubles they are equal. Whole numbers keep their digits.
    assert {name: type(numbers[name])(number) for name, number in shown[1]["data"].items()} == numbers


async def test_media_types_that_nobody_takes_are_refused(ada_at, countdown, echo):
    countdown.output_modes = ["text/plain", "text/markdown"]
    countdown.skills[0] |= {"inputModes": ["image/*"], "outputModes": ["application/pdf"]}
    await countdown.asave()
    refused = await ada_at("countdown").send(message(parts=[{"raw": "aGk=", "mediaType": "audio/wav"}]))
    assert refused.code == -32005
    for accepted in (["image/png"], ["audio/*", "image/*"]):
        answer = await ada_at("countdown").send(message("1"), acceptedOutputModes=accepted)
        assert (answer.code, answer.reason) == (-32005, "CONTENT_TYPE_NOT_SUPPORTED"), accepted
        assert "text/plain, text/markdown" in answer.error["message"]
    assert not await db.run(Context.objects.exists)
    parts = [{"text": "1", "mediaType": "Text/Plain; charset=utf-8"}, {"raw": "aGk=", "mediaType": "image/png"}]
    assert "result" in (await ada_at("countdown").send(message(parts=parts), returnImmediately=True)).body
    for usable in ([], ["TEXT/Markdown; charset=utf-8"], ["image/png", "application/pdf"], ["text/*"], ["text"]):
        how = {"acceptedOutputModes": usable, "returnImmediately": True}
        assert "result" in (await ada_at("countdown").send(message("1"), **how)).body, usable
    anything = {"acceptedOutputModes": ["image/png"], "returnImmediately": True}
    assert "result" in (await ada_at("echo").send(message("hi"), **anything)).body


@pytest.fixture
async def done(worker, ada_rests, echo):
    return (await ada_rests("echo").ask("POST", "message:send", {"message": message("hi")})).body["task"]


async def test_query_filters_the_list(ada_rests, done):
    calls = ada_rests("echo")
    for query, count in {
        f"context_id={done['contextId']}": 1,
        "status=2": 0,
        "status=&of-no-request=1": 1,
        "status_timestamp_after=2120-01-01T00%3A00%3A00%2B01%3A00": 0,
    }.items():
        assert len((await calls.ask("GET", f"tasks?{query}")).body["tasks"]) == count, query
    shown = (await calls.ask("GET", "tasks?include_artifacts=true&historyLength=0")).body["tasks"][0]
    assert (shown["artifacts"], "history" in shown) == (done["artifacts"], False)
    for query, fields in {
        "includeArtifacts=yes": ["includeArtifacts"],
        "pageSize=1.5": ["pageSize"],
        "pageSize=1&page_size=2": ["pageSize"],
        "unknown=1&unknown=2": ["unknown"],
        "status=%D9%A3": ["status"],
        "contextId=a%00b": ["contextId"],
        "tenant=hello": ["tenant"],
        "contextId=%ff": [],
        "&".join(f"p{n}=1" for n in range(101)): [],
    }.items():
        answer = await calls.ask("GET", f"tasks?{query}")
        assert (answer.status, answer.error["status"], answer.fields) == (400, "INVALID_ARGUMENT", fields), query


async def test_path_tenant_and_body_agree(ada_rests, done, hello):
    calls = ada_rests("echo")
    address = f"tasks/{done['id']}:cancel"
    for body in ({"id": done["id"]}, {"tenant": "echo"}, {}, None):
        assert (await calls.ask("POST", address, body)).reason == "TASK_NOT_CANCELABLE", body
    for body in ({"id": NO_TASK}, {"id": 5}, {"tenant": "hello"}):
        assert (await calls.ask("POST", address, body)).fields == list(body)
    assert (await calls.ask("GET", f"tasks/{done['id']}?id={NO_TASK}")).fields == ["id"]
    assert (await calls.ask("POST", f"echo/{address}", {"tenant": "hello"})).fields == ["tenant"]
    for address in (f"hello/tasks/{done['id']}", "hello/tasks", "hello/extendedAgentCard"):
        answer = await calls.ask("GET", address)
        assert (answer.status, answer.fields) == (400, ["tenant"])
    assert (await ada_rests("hello").ask("GET", f"tasks/{done['id']}")).reason == "TASK_NOT_FOUND"


PLAIN, OWN = "application/json", "application/a2a+json"


async def test_answer_has_the_preferred_type(ada_rests, echo):
    for accept, answered in (("*/*", OWN), (PLAIN, PLAIN), (f"{PLAIN};q=0.5, {OWN}", OWN), ("a/b;" * 5000, PLAIN)):
        answer = await ada_rests("echo").ask("POST", f"tasks/{NO_TASK}:cancel", {}, headers={"Accept": accept})
        assert (answer.status, answer.headers["Content-Type"]) == (404, answered)


async def test_broken_stream_ends_with_an_error_event(worker, ada_at, ada_rests, echo, monkeypatch):
    def fails(*args):
        raise RuntimeError("secret of the house")

    monkeypatch.setattr("apps.record.wire.stream_response", fails)
    response = await ada_rests("echo").send("POST", "message:stream", {"message": message("hi")})
    chunks = [chunk async for chunk in response.streaming_content]
    name, data = b"".join(chunks).strip().split(b"\n\n")[-1].split(b"\n")
    assert name == b"event: error"
    error = json.loads(data.removeprefix(b"data: "))["error"]
    assert (error["code"], error["status"]) == (500, "INTERNAL")
    response = await ada_at("echo").open("SendStreamingMessage", {"message": message()})
    chunks += (rpc := [chunk async for chunk in response.streaming_content])
    assert b'"error":{"code":-32603' in rpc[-1]
    assert b"secret" not in b"".join(chunks)
