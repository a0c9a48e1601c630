"""What somebody else uses is free to be used, and nobody in particular is known by a task's id alone.

tests/isolation has every field that names something.
"""

import asyncio
import uuid

import httpx
import pytest

from apps.accounts.models import ApiKey
from apps.accounts.principals import WRITE
from apps.accounts.requests import quotas
from apps.record.models import Context, Task
from parley import asgi, db
from parley.telemetry.requests import BODY_ARRIVED
from tests.a2a.calling import message

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("tasks are read by SQL of our own")]

KEYS = {"that writes": {"scopes": [WRITE]}, "of an agent": {"agents": ["hello"]}, "revoked": {}}


async def test_others_names_are_free_to_use(worker, ada_at, bob, bob_at, echo):
    said = message("secret", contextId="hers")
    task = (await ada_at("echo").send(said)).result["task"]["id"]
    before = (await ada_at("echo").call("GetTask", {"id": task})).result
    for named in ({"contextId": "hers"}, {"messageId": said["messageId"]}, {"referenceTaskIds": [task]}):
        events = [one async for _, one in bob_at("echo").stream("SendStreamingMessage", {"message": message(**named)})]
        shown = (await bob_at("echo").call("GetTask", {"id": events[0]["task"]["id"]})).result
        assert "secret" not in str(shown)
        row = await db.run(Task.objects.get, pk=shown["id"])
        assert (row.owner_id, task in row.references) == (bob.pk, False)
    assert (await ada_at("echo").call("GetTask", {"id": task})).result == before
    assert (await ada_at("echo").call("ListTasks", {})).result["totalSize"] == 1


async def test_early_readings_show_nothing_more(worker, ada, bob, ada_at, ada_key, bob_key, echo, hello):
    task = (await ada_at("echo").send(message("secret"))).result["task"]["id"]
    limited = [await db.run(ApiKey.issue, ada, name, **given) for name, given in KEYS.items()]
    await db.run(limited[-1][0].revoke)
    for key in (ada_key, bob_key, *(text for _, text in limited)):
        quotas.note_verified(f"Bearer {key}")

    async def asked(slug, key, params, has_arrived):
        async def application(scope, receive, send):
            await asgi.application(scope | {BODY_ARRIVED: has_arrived}, receive, send)

        headers = {"A2A-Version": "1.0"} | ({"Authorization": f"Bearer {key}"} if key else {})
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": params}
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", headers=headers) as client:
            answer = await client.post(f"/a2a/{slug}", json=body)
            return answer.status_code, answer.json()

    seen = []
    for key in (ada_key, bob_key, *(text for _, text in limited), f"{ada_key}x", ""):
        for slug in ("echo", "hello"):
            for params in ({"id": task}, {"id": task, "historyLength": 1}, {"id": str(uuid.uuid4())}, {"id": "x"}):
                answers = [await asked(slug, key, params, has_arrived) for has_arrived in (False, True)]
                assert answers[0] == answers[1]
                seen.append("secret" in str(answers[0]))
    assert seen == [True, True, *[False] * (len(seen) - 2)]


async def test_anonymous_tasks_are_reached_by_id_alone(worker, anybody_at, ada_at, public_echo):
    anybody = anybody_at("open-echo")
    task = (await anybody.send(message("hi"))).result["task"]
    assert (await anybody.call("GetTask", {"id": task["id"]})).result == task
    listed = (await anybody.call("ListTasks", {})).result
    assert listed == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    assert (await ada_at("open-echo").call("GetTask", {"id": task["id"]})).code == -32001


async def test_anonymous_callers_share_no_names(worker, anybody_at, public_echo):
    anybody = anybody_at("open-echo")
    both = await asyncio.gather(*(anybody.send(message("hi", contextId="ours")) for _ in range(2)))
    assert [answer.result["task"]["contextId"] for answer in both] == ["ours", "ours"]
    assert await db.run(Context.objects.filter(context_id="ours").count) == 2
    same = message("hi")
    first, second = [(await anybody.send(same)).result["task"] for _ in range(2)]
    assert first["id"] != second["id"]
    given = first["contextId"]
    assert (await anybody.send(message("more", contextId=given))).result["task"]["contextId"] == given
    assert await db.run(Context.objects.count) == 4
