"""A2A 0.3 over HTTP+JSON below /v1/, in the protocol buffers' form."""

import base64
import json
from typing import Any

import pytest

from apps.record.models import Context, Event
from tests.a2a.calling import message, text_of
from tests.a2a.old_calling import said, told

pytestmark = pytest.mark.django_db(transaction=True)

MISSING = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


async def test_a_send_waits_for_the_end(worker, old_rests, echo):
    task = await old_rests("echo").sent(told("hi"))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "hi"}]
    assert [one["role"] for one in task["history"]] == ["ROLE_USER", "ROLE_AGENT"]
    assert task["history"][0]["content"] == [{"text": "hi"}]
    for slash in ("", "/"):
        assert await old_rests("echo").task("GET", f"v1/tasks/{task['id']}{slash}") == task
    assert "kind" not in json.dumps(task)


async def test_an_answer_may_be_a_message(old_rests, greeting):
    answer = await old_rests("greeting").sent(told())
    assert answer["role"] == "ROLE_AGENT"
    assert text_of({"parts": answer["content"]}).startswith("Answer")


async def test_a_configuration_that_says_nothing_of_blocking_does_not_block(old_rests, echo):
    """ProtoJSON leaves out false values, so the SDK's client sends no `blocking`."""
    task = await old_rests("echo").sent(told(), configuration={"acceptedOutputModes": ["text/plain"]})
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    canceled = await old_rests("echo").task("POST", f"v1/tasks/{task['id']}:cancel", {"name": f"tasks/{task['id']}"})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELLED"


async def test_a_configuration_that_blocks_does(worker, old_rests, echo):
    task = await old_rests("echo").sent(told(), configuration={"blocking": True, "historyLength": 1})
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(task["history"]) == 1
    assert len((await old_rests("echo").task("GET", f"v1/tasks/{task['id']}?historyLength=0"))["history"]) == 2
    assert len((await old_rests("echo").task("GET", f"v1/tasks/{task['id']}?history_length=1"))["history"]) == 1


async def test_a_stream_is_of_bare_responses_and_ends_with_the_final_one(worker, old_rests, asking):
    stream = old_rests("asking").stream("POST", "v1/message:stream", {"message": told("ask me")})
    events = [event async for _, event in stream]
    assert "task" in events[0]
    assert events[-1]["statusUpdate"]["final"]
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    said_last = events[-1]["statusUpdate"]["status"]["message"]
    assert said_last["content"] == [{"text": "Which word?"}]


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_a_task_is_followed_until_it_is_canceled(worker, old_rests, asking, verb):
    task = await old_rests("asking").sent(told("sign in"))
    stream = old_rests("asking").stream(verb, f"v1/tasks/{task['id']}:subscribe")
    assert (await anext(stream))[1]["task"]["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    await old_rests("asking").task("POST", f"v1/tasks/{task['id']}:cancel")
    [(_, last)] = [event async for event in stream]
    assert (last["statusUpdate"]["status"]["state"], last["statusUpdate"]["final"]) == ("TASK_STATE_CANCELLED", True)


async def test_files_are_base64_twice_as_the_sdk_writes_them_or_once(worker, old_rests, ada_at, echo):
    content = base64.b64encode(bytes(range(256))).decode()
    of_the_sdk = base64.b64encode(content.encode()).decode()
    parts = [{"file": {"fileWithBytes": of_the_sdk, "name": "all.bin", "mimeType": "application/octet-stream"}}]
    task = await old_rests("echo").sent(told(content=parts))
    assert task["history"][0]["content"] == parts
    again = await old_rests("echo").sent(told(content=[{"file": {"file_with_bytes": content, "name": "all.bin"}}]))
    for one in (task, again):
        shown = (await ada_at("echo").call("GetTask", {"id": one["id"]})).result["history"][0]["parts"][0]
        assert (shown["raw"], shown["filename"]) == (content, "all.bin")


async def test_both_forms_of_0_3_show_the_same_task_and_know_the_same_message(worker, old_at, old_rests, ada_at, echo):
    task = await old_rests("echo").sent(told("hi"))
    by_rpc = (await old_at("echo").call("tasks/get", {"id": task["id"]})).result
    assert by_rpc["status"]["timestamp"] == task["status"]["timestamp"]
    assert [one["messageId"] for one in by_rpc["history"]] == [one["messageId"] for one in task["history"]]
    sent = said("again")
    first = (await old_at("echo").send(sent)).result
    assert (await old_rests("echo").sent(told("again", messageId=sent["messageId"])))["id"] == first["id"]
    named = (await ada_at("echo").send(message(referenceTaskIds=[first["id"]]))).result["task"]
    shown = await old_rests("echo").task("GET", f"v1/tasks/{named['id']}")
    assert "referenceTaskIds" not in shown["history"][0], "it has no field for them"


def sending(*parts: Any, **fields: Any) -> dict[str, Any]:
    """A send of these parts; a field of ... is removed."""
    built = told(content=list(parts) or [{"text": "hi"}]) | fields
    return {"message": {name: value for name, value in built.items() if value is not ...}}


CONTENT = "message.content[0]"
INVALID = {
    "no message": ({}, "message"),
    "a role of JSON-RPC": (sending(role="user"), "message.role"),
    "true as role": (sending(role=True), "message.role"),
    "no messageId": (sending(messageId=...), "message.messageId"),
    "parts by their name in JSON-RPC": (sending(content=..., parts=[{"text": "a"}]), "message.content"),
    "a part of nothing": (sending({}), CONTENT),
    "a part of text and a file": (sending({"text": "a", "file": {}}), CONTENT),
    "a number as text": (sending({"text": 5}), f"{CONTENT}.text"),
    "data without data": (sending({"data": {"a": 1}}), f"{CONTENT}.data.data"),
    "a list as data": (sending({"data": []}), f"{CONTENT}.data"),
    "a file of nothing": (sending({"file": {}}), f"{CONTENT}.file"),
    "no base64": (sending({"file": {"fileWithBytes": "!"}}), f"{CONTENT}.file.fileWithBytes"),
    "a URL of this machine": (sending({"file": {"fileWithUri": "http://[::1]/"}}), f"{CONTENT}.file.fileWithUri"),
    "a list as mimeType": (sending({"file": {"fileWithBytes": "aGk=", "mimeType": []}}), f"{CONTENT}.file.mimeType"),
    "a word as blocking": (sending() | {"configuration": {"blocking": "no"}}, "configuration.blocking"),
    "a list as webhook": (sending() | {"configuration": {"pushNotification": []}}, "configuration.pushNotification"),
}


async def test_what_is_wrong_is_refused_by_its_name(old_rests, echo, subtests):
    for wrong, (body, field) in INVALID.items():
        for address in ("v1/message:send", "v1/message:stream"):
            with subtests.test(f"{wrong}: {address}"):
                answer = await old_rests("echo").ask("POST", address, body)
                assert (answer.status, answer.error["status"], answer.fields) == (400, "INVALID_ARGUMENT", [field])
    assert not await Event.objects.aexists()
    assert not await Context.objects.aexists()


async def test_the_address_is_of_0_3_whatever_is_named(old_rests, echo):
    for version in ("0.3", "0.3.0"):
        assert (await old_rests("echo", version=version).ask("GET", f"v1/tasks/{MISSING}")).status == 404
    for version in ("1.0", "2.0"):
        answer = await old_rests("echo", version=version).ask("GET", f"v1/tasks/{MISSING}")
        assert (answer.status, answer.reason) == (400, "VERSION_NOT_SUPPORTED")
        assert "A2A-Version: 0.3" in answer.error["message"]
    verb = await old_rests("echo").ask("GET", "v1/message:send")
    assert (verb.status, verb.headers["Allow"]) == (405, "POST")
    for address in ("v1/tasks", "v1/message:sent", "v1", "v1/extendedAgentCard"):
        assert (await old_rests("echo").send("GET", address)).status_code == 404
