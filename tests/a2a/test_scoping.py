"""What somebody else uses is free to be used, and nobody in particular is known by a task's id alone.

tests/isolation has every field that names something.
"""

import asyncio

import pytest

from apps.record.models import Context, Task
from parley import db
from tests.a2a.calling import message

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("tasks are read by SQL of our own")]


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
