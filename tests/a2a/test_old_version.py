"""The 0.3 methods at the same endpoint give the same facts as 1.0."""

import json
from contextlib import aclosing
from typing import Any

import pytest

from apps.record.models import Context, Event, Task
from tests.a2a.agents import steps
from tests.a2a.calling import message, text_of
from tests.a2a.old_calling import OldCaller, said

pytestmark = pytest.mark.django_db(transaction=True)

MISSING = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


async def events_of(caller, method, params, **options) -> list[dict[str, Any]]:
    return [event async for _, event in caller.stream(method, params, **options)]


async def test_a_send_that_says_nothing_of_blocking_waits_for_the_end(worker, old_at, echo, subtests):
    for version in ("", "0.3", "0.3.0", "0.3.26"):
        with subtests.test(version):
            task = (await old_at("echo", version=version).call("message/send", {"message": said("hi")})).result
            assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert [text_of(artifact) for artifact in task["artifacts"]] == ["hi"]
    assert [one["role"] for one in task["history"]] == ["user", "agent"]
    assert {one["kind"] for one in task["history"]} == {"message"}
    assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "hi"}]


async def test_a_stream_ends_with_the_update_that_is_marked_as_final(worker, old_at, echo):
    events = await events_of(old_at("echo"), "message/stream", {"message": said("hi")})
    assert [event["kind"] for event in events] == ["task", "status-update", "artifact-update", "status-update"]
    assert [event["final"] for event in events if "final" in event] == [False, True]
    assert (events[0]["status"]["state"], events[-1]["status"]["state"]) == ("submitted", "completed")


async def test_a_question_is_final_and_the_answer_goes_on(worker, old_at, asking):
    events = await events_of(old_at("asking"), "message/stream", {"message": said("ask me")})
    assert (events[-1]["status"]["state"], events[-1]["final"]) == ("input-required", True)
    assert events[-1]["status"]["message"]["metadata"]["slot"] == {"name": "word"}
    task = (await old_at("asking").send(said("blue", taskId=events[0]["id"]))).result
    assert task["status"]["state"] == "completed"
    assert text_of(task["history"][-1]) == "It was blue."


async def test_a_sign_in_elsewhere_is_not_final(worker, old_at, asking):
    task = (await old_at("asking").send(said("sign in"))).result
    assert task["status"]["state"] == "auth-required"
    stream = old_at("asking").stream("tasks/resubscribe", {"id": task["id"]})
    assert (await anext(stream))[1]["status"]["state"] == "auth-required"
    await old_at("asking").call("tasks/cancel", {"id": task["id"]})
    assert [(event["final"], event["status"]["state"]) async for _, event in stream] == [(True, "canceled")]


async def test_a_stream_that_was_lost_is_taken_up_again(worker, old_at, stepping):
    steps.allow()
    seen = []
    async with aclosing(old_at("stepping").stream("message/stream", {"message": said("2")})) as first:
        while not seen or seen[-1][1]["kind"] != "artifact-update":
            seen.append(await anext(first))
    steps.allow(10)
    place = {"Last-Event-ID": str(seen[-1][0])}
    missed = await events_of(old_at("stepping"), "tasks/resubscribe", {"id": seen[0][1]["id"]}, headers=place)
    assert next(text_of(event["artifact"]) for event in missed if event["kind"] == "artifact-update") == "2\n"
    assert missed[-1]["final"]


async def test_what_0_3_has_no_field_for_stands_in_the_metadata(worker, old_at, ada_at, echo):
    parts = [
        {"text": "# Title", "filename": "a.md", "mediaType": "text/markdown", "metadata": {"n": 1}},
        {"data": [1, None]},
        {"data": None, "metadata": {"n": 2}},
    ]
    task = (await ada_at("echo").send(message(parts=parts))).result["task"]
    shown = (await old_at("echo").call("tasks/get", {"id": task["id"]})).result["history"][0]["parts"]
    named = {"filename": "a.md", "mediaType": "text/markdown", "n": 1}
    assert shown == [
        {"kind": "text", "text": "# Title", "metadata": named},
        {"kind": "data", "data": {"value": [1, None]}, "metadata": {"data_part_compat": True}},
        {"kind": "data", "data": {"value": None}, "metadata": {"data_part_compat": True, "n": 2}},
    ]
    again = (await old_at("echo").send(said(parts=shown[1:]))).result
    back = (await ada_at("echo").call("GetTask", {"id": again["id"]})).result["history"][0]["parts"]
    assert back == parts[1:]


async def test_a_history_of_0_is_all_of_it(worker, old_at, echo):
    task = (await old_at("echo").send(said(), historyLength=0)).result
    assert len(task["history"]) == 2
    for length, shown in ((0, 2), (1, 1), (5, 2)):
        asked = (await old_at("echo").call("tasks/get", {"id": task["id"], "historyLength": length})).result
        assert len(asked["history"]) == shown


async def test_a_send_that_does_not_block_answers_at_once_and_its_task_is_canceled_once(old_at, echo):
    task = (await old_at("echo").send(said(), blocking=False)).result
    assert task["status"]["state"] == "submitted"
    canceled = (await old_at("echo").call("tasks/cancel", {"id": task["id"]})).result
    assert canceled["status"]["state"] == "canceled"
    assert (await old_at("echo").call("tasks/cancel", {"id": task["id"]})).code == -32002


@pytest.mark.parametrize("begun_by", ["0.3", "1.0"])
async def test_either_version_follows_and_goes_on_with_a_task_of_the_other(worker, old_at, ada_at, asking, begun_by):
    if begun_by == "0.3":
        task = (await old_at("asking").send(said("ask"))).result
    else:
        task = (await ada_at("asking").send(message("ask"))).result["task"]
    followed = ada_at("asking").stream("SubscribeToTask", {"id": task["id"]})
    old_followed = old_at("asking").stream("tasks/resubscribe", {"id": task["id"]})
    assert (await anext(followed))[1]["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (await anext(old_followed))[1]["status"]["state"] == "input-required"
    if begun_by == "0.3":
        await ada_at("asking").send(message("blue", taskId=task["id"]))
    else:
        await old_at("asking").send(said("blue", taskId=task["id"]))
    assert [index async for index, _ in followed] == [index async for index, _ in old_followed]
    new = (await ada_at("asking").call("GetTask", {"id": task["id"]})).result
    old = (await old_at("asking").call("tasks/get", {"id": task["id"]})).result
    assert (new["status"]["state"], old["status"]["state"]) == ("TASK_STATE_COMPLETED", "completed")
    assert new["status"]["timestamp"] == old["status"]["timestamp"]
    assert [(one["messageId"], text_of(one)) for one in new["history"]] == [
        (one["messageId"], text_of(one)) for one in old["history"]
    ]


async def test_a_message_that_is_repeated_in_the_other_version_is_the_same_message(worker, old_at, ada_at, echo):
    sent = said("once")
    first = (await old_at("echo").send(sent)).result
    again = (await ada_at("echo").send(message(messageId=sent["messageId"], parts=[{"text": "once"}]))).result["task"]
    assert again["id"] == first["id"]


def asked(**fields: Any) -> dict[str, Any]:
    """A send with these message fields; ... removes one."""
    return {"message": {name: value for name, value in (said() | fields).items() if value is not ...}}


def part(value: Any) -> dict[str, Any]:
    return asked(parts=[value])


def file(**fields: Any) -> dict[str, Any]:
    return part({"kind": "file", "file": fields})


def configured(**fields: Any) -> dict[str, Any]:
    return asked() | {"configuration": fields}


INVALID = {
    "a list as params": ([], "params"),
    "null as params": (None, "params"),
    "no message": ({}, "message"),
    "a message of another kind": (asked(kind="task"), "message.kind"),
    "a role of 1.0": (asked(role="ROLE_USER"), "message.role"),
    "the agent's role": (asked(role="agent"), "message.role"),
    "no messageId": (asked(messageId=...), "message.messageId"),
    "no parts": (asked(parts=...), "message.parts"),
    "a string as part": (part("hello"), "message.parts[0]"),
    "a part of nothing": (part({}), "message.parts[0].kind"),
    "a part that does not say what it is": (part({"text": "a"}), "message.parts[0].kind"),
    "a part of another kind": (part({"kind": "image"}), "message.parts[0].kind"),
    "a text without text": (part({"kind": "text", "data": {}}), "message.parts[0].text"),
    "U+0000 in a text": (part({"kind": "text", "text": "a\0"}), "message.parts[0].text"),
    "a list as data": (part({"kind": "data", "data": [1]}), "message.parts[0].data"),
    "half a surrogate pair in data": (part({"kind": "data", "data": {"a": "\ud800"}}), "message.parts[0].data"),
    "a file of nothing": (file(name="a"), "message.parts[0].file"),
    "a file of bytes and a URL": (file(bytes="aGk=", uri="https://example.com/"), "message.parts[0].file"),
    "no base64": (file(bytes="!"), "message.parts[0].file.bytes"),
    "a URL of this machine": (file(uri="http://localhost/"), "message.parts[0].file.uri"),
    "a newline in a file name": (file(bytes="aGk=", name="a\nb"), "message.parts[0].file.name"),
    "a list as mimeType": (file(bytes="aGk=", mimeType=[]), "message.parts[0].file.mimeType"),
    "a list as a part's metadata": (part({"kind": "text", "text": "a", "metadata": []}), "message.parts[0].metadata"),
    "a word as blocking": (configured(blocking="no"), "configuration.blocking"),
    "a negative historyLength": (configured(historyLength=-1), "configuration.historyLength"),
    "false as historyLength": (configured(historyLength=False), "configuration.historyLength"),
    "a list as webhook": (configured(pushNotificationConfig=[]), "configuration.pushNotificationConfig"),
}


async def test_params_that_are_wrong_are_refused_by_their_old_names(old_at, echo, subtests):
    for wrong, (params, field) in INVALID.items():
        for method in ("message/send", "message/stream"):
            with subtests.test(f"{wrong}: {method}"):
                answer = await old_at("echo").call(method, params)
                assert (answer.status, answer.code, answer.fields) == (200, -32602, [field])
    for params, field in (({}, "id"), ({"id": 5}, "id"), ({"id": "a", "historyLength": -1}, "historyLength")):
        answer = await old_at("echo").call("tasks/get", params)
        assert (answer.code, answer.fields) == (-32602, [field])
    assert not await Event.objects.aexists()
    assert not await Context.objects.aexists()


STREAM_ONLY = {"Accept": "text/event-stream"}


async def test_an_error_is_an_event_for_who_reads_only_events(old_at, ada_at, echo):
    for method, params, code, accept in (
        ("message/stream", part({}), -32602, "text/event-stream"),
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
        (old_at("echo"), "tasks/get", {"id": MISSING}, STREAM_ONLY),
        (old_at("echo"), "message/stream", part({}), both),
        (ada_at("echo"), "SubscribeToTask", {"id": MISSING}, STREAM_ONLY),
    ):
        answer = await caller.call(method, params, headers)
        assert answer.headers["Content-Type"] == "application/json"
    assert not await Task.objects.aexists()


async def test_a_request_without_id_gets_the_error_of_its_content_and_does_nothing(old_at, ada_at, echo):
    for caller, content, code in (
        (old_at("echo"), {"method": "message/send", "params": "hi"}, -32602),
        (old_at("echo"), {"method": "message/send", "params": part({})}, -32602),
        (old_at("echo"), {"method": "message/send", "params": {"": "no message"}}, -32602),
        (old_at("echo"), {"method": "tasks/get", "params": {}}, -32602),
        (old_at("echo"), {"method": "tasks/get", "params": {"id": MISSING}}, -32600),
        (old_at("echo"), {"method": "message/sent", "params": {}}, -32601),
        (old_at("echo"), {"method": "message/send", "params": asked()}, -32600),
        (ada_at("echo"), {"method": "SendMessage", "params": "hi"}, -32600),
        (ada_at("echo"), {"method": "Sent", "params": {}}, -32601),
    ):
        answer = await caller.post({"jsonrpc": "2.0"} | content)
        assert (answer.status, answer.code, answer.body["id"]) == (200, code, None)
    assert not await Task.objects.aexists()


async def test_somebody_elses_task_is_not_found(worker, old_at, bob_key, echo):
    task = (await old_at("echo").send(said())).result
    bob = OldCaller("echo", bob_key)
    for method in ("tasks/get", "tasks/cancel", "tasks/resubscribe"):
        theirs = await bob.call(method, {"id": task["id"]})
        assert theirs.code == -32001
        assert theirs.body == (await bob.call(method, {"id": MISSING})).body
    assert (await bob.send(said(taskId=task["id"]))).code == -32001
    assert await Task.objects.acount() == 1


async def test_errors_speak_of_the_methods_of_0_3(worker, old_at, asking, echo, quiet):
    answer = await old_at("asking").call("message/send", file(bytes="aGk=", mimeType="image/png"))
    assert answer.code == -32005
    task = (await old_at("echo").send(said())).result
    ended = await old_at("echo").call("tasks/resubscribe", {"id": task["id"]})
    assert (ended.code, "tasks/get" in ended.error["message"]) == (-32004, True)
    assert (await old_at("echo").call("tasks/cancel", {"id": task["id"]})).code == -32002
    refused = await old_at("quiet").call("message/stream", {"message": said()})
    assert refused.code == -32004
    assert "message/send" in refused.error["message"]
    assert "SendMessage" not in refused.error["message"]


async def test_an_extension_is_activated_by_its_old_header(worker, old_at, echo):
    uri = "https://example.com/ext/timestamps/v1"
    echo.capabilities = {"extensions": [{"uri": uri}]}
    await echo.asave()
    answer = await old_at("echo").call("message/send", {"message": said()}, {"X-A2A-Extensions": uri})
    assert answer.headers["X-A2A-Extensions"] == uri


async def test_the_version_decides_not_the_methods_name(old_at, ada_at, echo):
    new = await old_at("echo").call("SendMessage", {"message": message()})
    assert new.code == -32601
    assert "A2A-Version: 1.0" in new.error["message"]
    old = await ada_at("echo").call("message/send", {"message": said()})
    assert old.code == -32601
    assert "0.3" in old.error["message"]
    assert "SendMessage" in old.error["message"]
    assert (await old_at("echo").call("message/sent", {})).code == -32601
    assert not await Task.objects.aexists()
