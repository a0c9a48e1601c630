"""A follow-up task refines what an earlier one delivered: under the same name, as an artifact of its own."""

import pytest

import bridge
from apps.conversations import intake, wire
from apps.conversations.models import Task
from tests.working import carry_out

pytestmark = pytest.mark.django_db(transaction=True)


async def delivered(ada, agent, message):
    receipt = await bridge.run(intake.accept, ada.principal, agent, message)
    await carry_out(receipt.run)
    task = await bridge.run(lambda: wire.load_task(Task.objects.select_related("context").get(pk=receipt.task)))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    return task


@pytest.mark.parametrize(("handler", "name"), [("function", "answer"), ("Refining", "poem.md")])
async def test_the_name_stays_and_the_id_is_new(ada, agent_at, said, handler, name):
    agent = await agent_at(f"tests.runtime.forms:{handler}")
    first = await delivered(ada, agent, said("text"))
    second = await delivered(ada, agent, said("text", contextId=first["contextId"]))
    (old,), (new,) = first["artifacts"], second["artifacts"]
    assert old["name"] == new["name"] == name
    assert old["artifactId"] != new["artifactId"]
    assert first["id"] != second["id"]
    assert second["status"]["message"]["parts"], "a message and an artifact"
