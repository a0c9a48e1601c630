"""A2A 0.3 has the facts of 1.0: JSON-RPC at the same endpoint, HTTP+JSON below /v1/ in the protocol buffers' form."""

import base64
import json
from typing import Any

import pytest

from apps.record.models import Context, Event, Task
from tests.a2a.calling import message, text_of
from tests.a2a.old_calling import OldCaller, said, told

pytestmark = pytest.mark.django_db(transaction=True)

MISSING = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


async def events_of(stream) -> list[dict[str, Any]]:
    return [event async for _, event in stream]


async def test_old_stream_marks_its_final_update(worker, old_at, old_rests, echo, asking):
    events = await events_of(old_at("echo").stream("message/stream", {"message": said("hi")}))
    assert [event["kind"] for event in events] == ["task", "status-update", "artifact-update", "status-update"]
    assert [event["final"] for event in events if "final" in event] == [False, True]
    events = await events_of(old_at("asking").stream("message/stream", {"message": said("ask me")}))
    assert (events[-1]["status"]["state"], events[-1]["final"]) == ("input-required", True)
    assert events[-1]["status"]["message"]["metadata"]["slot"] == {"name": "word"}
    task = (await old_at("asking").send(said("blue", taskId=events[0]["id"]))).result
    assert (task["status"]["state"], text_of(task["history"][-1])) == ("completed", "It was blue.")
    events = await events_of(old_rests("asking").stream("POST", "v1/message:stream", {"message": told("ask me")}))
    assert "task" in events[0]
    last = events[-1]["statusUpdate"]
    assert (last["status"]["state"], last["final"]) == ("TASK_STATE_INPUT_REQUIRED", True)
    assert last["status"]["message"]["content"] == [{"text": "Which word?"}]


async def test_either_version_goes_on_with_a_task(worker, old_at, ada_at, asking):
    task = (await ada_at("asking").send(message("ask"))).result["task"]
    followed = ada_at("asking").stream("SubscribeToTask", {"id": task["id"]})
    old_followed = old_at("asking").stream("tasks/resubscribe", {"id": task["id"]})
    assert (await anext(followed))[1]["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (await anext(old_followed))[1]["status"]["state"] == "input-required"
    answer = said("blue", taskId=task["id"])
    await old_at("asking").send(answer)
    repeated = await ada_at("asking").send(message("blue", taskId=task["id"], messageId=answer["messageId"]))
    assert repeated.result["task"]["id"] == task["id"], "a repeated message is known in either form"
    assert [index async for index, _ in followed] == [index async for index, _ in old_followed]
    new = (await ada_at("asking").call("GetTask", {"id": task["id"]})).result
    old = (await old_at("asking").call("tasks/get", {"id": task["id"]})).result
    assert (new["status"]["state"], old["status"]["state"]) == ("TASK_STATE_COMPLETED", "completed")
    assert new["status"]["timestamp"] == old["status"]["timestamp"]
    facts = [[(one["messageId"], text_of(one)) for one in shown["history"]] for shown in (new, old)]
    assert facts[0] == facts[1]


async def test_http_send_is_named_as_sdk_does(worker, old_rests, echo):
    """By the field's own name, which ProtoJSON takes, too."""
    sent = await old_rests("echo").ask("POST", "v1/message:send", {"request": told("hi")})
    assert (sent.status, sent.body["task"]["history"][0]["content"]) == (200, [{"text": "hi"}])
    assert (await old_rests("echo").ask("POST", "v1/message:send", {"request": 5})).fields == ["request"]


async def test_old_files_are_base64_once_or_twice(worker, old_rests, ada_at, echo):
    """The SDK of 0.3 encodes twice."""
    content = base64.b64encode(bytes(range(256))).decode()
    of_the_sdk = base64.b64encode(content.encode()).decode()
    parts = [{"file": {"fileWithBytes": of_the_sdk, "name": "all.bin", "mimeType": "application/octet-stream"}}]
    task = await old_rests("echo").sent(told(content=parts))
    assert task["history"][0]["content"] == parts
    again = await old_rests("echo").sent(told(content=[{"file": {"file_with_bytes": content, "name": "all.bin"}}]))
    for one in (task, again):
        shown = (await ada_at("echo").call("GetTask", {"id": one["id"]})).result["history"][0]["parts"][0]
        assert (shown["raw"], shown["filename"]) == (content, "all.bin")


def asked(build: Any = said, **fields: Any) -> dict[str, Any]:
    """A send with these message fields; ... removes one."""
    return {"message": {name: value for name, value in (build() | fields).items() if value is not ...}}


def part(value: Any) -> dict[str, Any]:
    return asked(parts=[value])


def file(**fields: Any) -> dict[str, Any]:
    return part({"kind": "file", "file": fields})


def content(value: Any) -> dict[str, Any]:
    return asked(told, content=[value])


PART, CONTENT = "message.parts[0]", "message.content[0]"
BLOCKING = {"configuration": {"blocking": "no"}}
INVALID = {
    "null as params": (None, "params"),
    "a message of another kind": (asked(kind="task"), "message.kind"),
    "a role of 1.0": (asked(role="ROLE_USER"), "message.role"),
    "no parts": (asked(parts=...), "message.parts"),
    "a string as part": (part("hello"), PART),
    "a part that does not say what it is": (part({"text": "a"}), f"{PART}.kind"),
    "a text without text": (part({"kind": "text", "data": {}}), f"{PART}.text"),
    "a list as data": (part({"kind": "data", "data": [1]}), f"{PART}.data"),
    "a file of bytes and a URL": (file(bytes="aGk=", uri="https://example.com/"), f"{PART}.file"),
    "a word as blocking": (asked() | BLOCKING, "configuration.blocking"),
}
INVALID_OVER_HTTP = {
    "no message": ({}, "message"),
    "a role of JSON-RPC": (asked(told, role="user"), "message.role"),
    "parts by their name in JSON-RPC": (asked(told, content=..., parts=[{"text": "a"}]), "message.content"),
    "a part of text and a file": (content({"text": "a", "file": {}}), CONTENT),
    "data without data": (content({"data": {"a": 1}}), f"{CONTENT}.data.data"),
    "no base64": (content({"file": {"fileWithBytes": "!"}}), f"{CONTENT}.file.fileWithBytes"),
    "a URL of this machine": (content({"file": {"fileWithUri": "http://[::1]/"}}), f"{CONTENT}.file.fileWithUri"),
    "a word as blocking": (asked(told) | BLOCKING, "configuration.blocking"),
}


async def test_wrong_params_are_named_in_old_words(old_at, old_rests, echo, subtests):
    for wrong, (params, field) in INVALID.items():
        with subtests.test(wrong):
            answer = await old_at("echo").call("message/send", params)
            assert (answer.status, answer.code, answer.fields) == (200, -32602, [field])
    for wrong, (body, field) in INVALID_OVER_HTTP.items():
        with subtests.test(wrong):
            answer = await old_rests("echo").ask("POST", "v1/message:send", body)
            assert (answer.status, answer.error["status"], answer.fields) == (400, "INVALID_ARGUMENT", [field])
    assert not await Event.objects.aexists()
    assert not await Context.objects.aexists()


STREAM_ONLY = {"Accept": "text/event-stream"}


async def test_error_is_an_event_for_stream_readers(old_at, ada_at, echo):
    for method, params, code, accept in (
        ("message/stream", asked(taskId=MISSING), -32001, "*/*, text/event-stream"),  # the SDK's
        ("tasks/resubscribe", {"id": MISSING}, -32001, "text/event-stream"),
    ):
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        plain = await old_at("echo").post(body)
        response = await old_at("echo").client.post(
            "/a2a/echo", body, content_type="application/json", headers=old_at("echo").headers({"Accept": accept})
        )
        assert (response.status_code, response["Content-Type"]) == (200, "text/event-stream")
        assert response.content.count(b"data: ") == 1
        assert json.loads(response.content.removeprefix(b"data: ")) == plain.body
        assert (plain.code, plain.body["id"]) == (code, 7)
    unknown = await OldCaller("echo", "parley_000000000000_wrong").call("message/stream", {}, STREAM_ONLY)
    assert (unknown.status, unknown.code) == (401, 401), "an HTTP status is not lost"
    both = {"Accept": "application/json, text/event-stream"}
    for caller, method, params, headers in (
        (old_at("echo"), "message/send", part({}), STREAM_ONLY),
        (old_at("echo"), "message/stream", part({}), both),
        (ada_at("echo"), "SubscribeToTask", {"id": MISSING}, STREAM_ONLY),
    ):
        answer = await caller.call(method, params, headers)
        assert answer.headers["Content-Type"] == "application/json"
    assert not await Task.objects.aexists()


async def test_version_decides_not_the_method_name(old_at, old_rests, ada_at, echo):
    new = await old_at("echo").call("SendMessage", {"message": message()})
    assert (new.code, "A2A-Version: 1.0" in new.error["message"]) == (-32601, True)
    old = await ada_at("echo").call("message/send", {"message": said()})
    assert old.code == -32601
    assert "0.3" in old.error["message"]
    assert "SendMessage" in old.error["message"]
    assert not await Task.objects.aexists()
    for version in ("1.0", "2.0"):
        answer = await old_rests("echo", version=version).ask("GET", f"v1/tasks/{MISSING}")
        assert (answer.status, answer.reason) == (400, "VERSION_NOT_SUPPORTED")
        assert "A2A-Version: 0.3" in answer.error["message"]


async def test_a_sign_in_elsewhere_is_not_final(worker, old_at, old_rests, asking):
    task = (await old_at("asking").send(said("sign in"))).result
    stream = old_at("asking").stream("tasks/resubscribe", {"id": task["id"]})
    over_http = old_rests("asking").stream("POST", f"v1/tasks/{task['id']}:subscribe")
    assert (await anext(stream))[1]["status"]["state"] == task["status"]["state"] == "auth-required"
    assert (await anext(over_http))[1]["task"]["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    await old_rests("asking").task("POST", f"v1/tasks/{task['id']}:cancel")
    assert (await old_at("asking").call("tasks/cancel", {"id": task["id"]})).code == -32002, "not twice, in 0.3"
    assert [(event["final"], event["status"]["state"]) async for _, event in stream] == [(True, "canceled")]
    [(_, last)] = [event async for event in over_http]
    assert (last["statusUpdate"]["status"]["state"], last["statusUpdate"]["final"]) == ("TASK_STATE_CANCELLED", True)


async def test_request_without_id_does_nothing(old_at, ada_at, echo):
    for caller, content, code in (
        (old_at("echo"), {"method": "message/send", "params": part({})}, -32602),
        (old_at("echo"), {"method": "message/sent", "params": {}}, -32601),
        (old_at("echo"), {"method": "message/send", "params": asked()}, -32600),
        (ada_at("echo"), {"method": "SendMessage", "params": "hi"}, -32600),
    ):
        answer = await caller.post({"jsonrpc": "2.0"} | content)
        assert (answer.status, answer.code, answer.body["id"]) == (200, code, None)
    assert not await Task.objects.aexists()
