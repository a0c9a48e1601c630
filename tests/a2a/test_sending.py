"""SendMessage waits for what comes of a message, unless the caller will not."""

import pytest

from tests.a2a.calling import message, text_of

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_send_waits_until_the_task_has_ended(worker, ada_at, echo):
    task = (await ada_at("echo").send(message("hi"))).result["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [text_of(artifact) for artifact in task["artifacts"]] == ["hi"]
    assert [said["role"] for said in task["history"]] == ["ROLE_USER", "ROLE_AGENT"]


async def test_a_stream_begins_with_the_task_and_ends_when_it_does(worker, ada_at, echo):
    stream = ada_at("echo").stream("SendStreamingMessage", {"message": message("hi")})
    events = [event async for event in stream]
    assert events[0][1]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert [next(iter(event)) for _, event in events] == ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]
    assert events[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
