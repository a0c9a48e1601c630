"""The SDK's client of 0.3 works over both bindings."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from a2a.types import a2a_pb2 as a2a

from tests.a2a import old_sdk
from tests.a2a.calling import text_of
from tests.a2a.old_calling import said
from tests.a2a.old_sdk import OldSdkError
from tests.a2a.talking import request
from tests.a2a.talking import text_of as new_text_of

pytestmark = pytest.mark.slow("packages and processes of its own")

MISSING = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
NOT_FOUND = {"JSONRPC": -32001, "HTTP+JSON": 404}
REFUSED = {"JSONRPC": -32002, "HTTP+JSON": 400}


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
def transport(request) -> str:
    return request.param


@pytest.fixture
def old(server, transport) -> Callable[..., Any]:
    """The old client as the demo user, at the named agent."""
    return lambda slug, key=server.demo_key: old_sdk.talking(f"{server.url}/a2a/{slug}", key, transport)


async def test_a_task_and_its_webhook_are_there_to_get_and_errors_have_their_codes(old, transport):
    async with old("echo") as agent:
        card = await agent.one("show_card")
        assert card["protocolVersion"] == "0.3.0"
        assert transport in {one["transport"] for one in card["additionalInterfaces"]}
        task = await agent.answer(said("hi"))
        assert task["status"]["state"] == "completed"
        assert text_of(task["artifacts"][0]) == "hi"
        assert [one["role"] for one in task["history"]] == ["user", "agent"]
        assert await agent.one("get", id=task["id"]) == task
        assert len((await agent.one("get", id=task["id"], length=1))["history"]) == 1
        config = {"id": "mine", "url": "https://hooks.invalid/hook", "token": "secret"}
        made = await agent.one("set_webhook", taskId=task["id"], pushNotificationConfig=config)
        assert made["taskId"] == task["id"]
        assert {**made["pushNotificationConfig"], "token": "secret"} == config
        assert await agent.one("get_webhook", id=task["id"], pushNotificationConfigId="mine") == made
        with pytest.raises(OldSdkError) as missing:
            await agent.one("get", id=MISSING)
        assert missing.value.code == NOT_FOUND[transport]
        with pytest.raises(OldSdkError) as refused:
            await agent.one("cancel", id=task["id"])
        assert refused.value.code == REFUSED[transport]
    async with old("echo", key="parley_000000000000_wrong") as agent:
        with pytest.raises(OldSdkError) as refused:
            await agent.answer(said("hi"))
        assert refused.value.code == 401


async def test_streams_bring_messages_and_chunks_and_are_taken_up_later(old):
    async with old("hello") as agent:
        for streaming in (False, True):
            [event] = [event async for event in agent.send(said("I am Ada"), streaming=streaming)]
            assert "I am Ada" in text_of(event["message"])
    async with old("countdown") as agent:
        events = [event async for event in agent.send(said("5"))]
        updates = [event["update"] for event in events if event["update"]]
        chunks = [update for update in updates if update["kind"] == "artifact-update"]
        assert [text_of(chunk["artifact"]).strip() for chunk in chunks] == ["5", "4", "3", "2", "1"]
        assert [update.get("final", False) for update in updates] == [False] * (len(updates) - 1) + [True]
        assert events[-1]["task"]["status"]["state"] == "completed"
        task = await agent.answer(said("20"), polling=True)
        assert task["status"]["state"] in ("submitted", "working")
        events = [event async for event in agent.events("resubscribe", id=task["id"])]
        assert events[-1]["update"]["final"]
        assert events[-1]["task"]["status"]["state"] == "completed"
        task = await agent.answer(said("10000"), polling=True)
        for do in ("cancel", "get"):
            assert (await agent.one(do, id=task["id"]))["status"]["state"] == "canceled"


async def test_files_and_data_come_back_as_they_were(old):
    content = base64.b64encode(bytes(range(256))).decode()
    large = base64.b64encode(b"\xff" * 600_000).decode()
    parts = [
        {"kind": "text", "text": "words"},
        {"kind": "data", "data": {"a": [1, 2.5, None, {"ü": True}]}},
        {"kind": "file", "file": {"bytes": content, "name": "all.bin", "mimeType": "application/octet-stream"}},
        {"kind": "file", "file": {"bytes": large, "name": "large.bin", "mimeType": "application/octet-stream"}},
        {"kind": "file", "file": {"uri": "https://example.com/a.png", "name": "a.png", "mimeType": "image/png"}},
    ]
    async with old("echo") as agent:
        task = await agent.answer(said(parts=parts))
    returned = {artifact["name"]: artifact["parts"][0] for artifact in task["artifacts"]}
    assert returned["data"]["data"] == parts[1]["data"]
    for part in parts[2:]:
        assert returned[part["file"]["name"]]["file"] == part["file"]
    assert [part["kind"] for part in task["history"][0]["parts"]] == [part["kind"] for part in parts]


@pytest.mark.parametrize("finished_by", ["0.3", "1.0"])
async def test_a_task_of_one_version_is_finished_by_a_client_of_the_other(old, talk, finished_by):
    async with old("countdown") as agent, talk("countdown") as new:
        if finished_by == "1.0":
            begun = [event async for event in agent.send(said("from 20000"))][-1]["task"]
            assert begun["status"]["state"] == "input-required"
            answered = new.send_message(request("3", task_id=begun["id"], context_id=begun["contextId"]))
            assert [one async for one in answered][-1].status_update.status.state == a2a.TASK_STATE_COMPLETED
            task_id = begun["id"]
        else:
            asked = [one async for one in new.send_message(request("from 20000"))]
            assert asked[-1].status_update.status.state == a2a.TASK_STATE_INPUT_REQUIRED
            task_id = asked[0].task.id
            await agent.answer(said("3", taskId=task_id, contextId=asked[0].task.context_id))
        shown = await new.get_task(a2a.GetTaskRequest(id=task_id))
        former = await agent.one("get", id=task_id)
    assert (former["status"]["state"], shown.status.state) == ("completed", a2a.TASK_STATE_COMPLETED)
    assert (former["id"], former["contextId"]) == (shown.id, shown.context_id)
    assert [one["messageId"] for one in former["history"]] == [one.message_id for one in shown.history]
    assert [text_of(one) for one in former["history"]] == [new_text_of(one) for one in shown.history]
    assert [text_of(one) for one in former["artifacts"]] == [new_text_of(one) for one in shown.artifacts]
