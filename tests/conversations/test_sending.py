"""A message that is sent to an agent becomes a task, is worked on, and is all in the record."""

import pytest

import bridge
from apps.conversations import replay, wire
from apps.conversations.models import Task
from apps.runtime.sending import send, settled

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_task_runs_to_its_end(worker, ada, echo, said):
    sent = await send(ada.principal, echo, said("hi"))
    await settled(sent.context, sent.task, sent.index, wire.load_task)
    shown = await bridge.run(lambda: wire.load_task(Task.objects.select_related("context").get(pk=sent.task)))
    assert shown["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [part["text"] for part in shown["artifacts"][0]["parts"]] == ["hi"]
    assert [message["role"] for message in shown["history"]] == ["ROLE_USER", "ROLE_AGENT"]
    assert await bridge.run(replay.differences, sent.context) == []
