"""The SDK's client of 0.3 works over both bindings."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.a2a import old_sdk
from tests.a2a.calling import text_of
from tests.a2a.old_calling import said
from tests.a2a.old_sdk import OldSdkError

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


async def test_old_sdk_gets_tasks_webhooks_and_errors(old, transport):
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


async def test_old_sdk_streams_resumes_and_cancels(old):
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
