"""Both agents' endpoints after a conversation was switched."""

import uuid

import pytest

import db
from apps.agents.registration import register_hosted
from apps.features.sessions import commands
from apps.record.execution import Run
from apps.record.models import Context
from tests.a2a.calling import message
from tests.a2a.old_calling import said

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = {"returnImmediately": True}


async def sent(caller, text="hi", **fields):
    return (await caller.send(message(text, **fields))).result["task"]


@pytest.fixture
async def switched(ada, ada_at, echo, hello, worker):
    """Ada talked with echo, then switched; both endpoints, and the first task."""
    other = await db.run(register_hosted, "other", "examples.agents.echo:Echo")
    first = await sent(ada_at("echo"), contextId="talk")
    context = await db.run(Context.objects.get)
    await db.run(commands.switch_agent, ada.principal, context.pk, other)
    return ada_at("echo"), ada_at("other"), first


async def test_each_endpoint_has_its_own_tasks_and_the_new_one_the_conversation(switched):
    old, new, first = switched
    second = await sent(new, "and", contextId="talk")
    assert second["contextId"] == first["contextId"] == "talk"
    for caller, task in ((old, first), (new, second)):
        listed = (await caller.call("ListTasks", {"contextId": "talk"})).result["tasks"]
        assert [one["id"] for one in listed] == [task["id"]]
    assert (await old.call("GetTask", {"id": first["id"]})).result["status"] == first["status"]
    assert (await new.call("GetTask", {"id": first["id"]})).reason == "TASK_NOT_FOUND"
    assert (await old.call("contexts/list", {})).result["contexts"] == []
    (shown,) = (await new.call("contexts/list", {})).result["contexts"]
    assert (shown["contextId"], shown["taskCount"]) == ("talk", 1)


async def test_the_old_endpoint_takes_no_new_task_in_it_and_says_what_to_do(switched):
    old, new, _ = switched
    refused = await old.send(message("more", contextId="talk"))
    assert refused.code == -32602
    assert "belongs to another agent. Choose another" in refused.error["message"]
    assert "no such session" in (await old.call("contexts/clear", {"contextId": "talk"})).error["message"]
    assert (await new.call("contexts/clear", {"contextId": "talk"})).result == {}


async def test_each_message_says_which_agent_wrote_it(switched, ada_at):
    _, new, first = switched
    second = await sent(new, "and", contextId="talk")
    assert first["history"][-1]["metadata"] == {"agent": "echo"}
    assert [one.get("metadata") for one in second["history"]] == [None, {"agent": "other"}]
    answer = (await ada_at("hello").send(message("hi"))).result["message"]
    assert answer["metadata"]["agent"] == "hello"


async def test_the_callers_trace_goes_on_over_every_binding(ada_at, ada_rests, old_at, echo):
    header = "00-{}-00f067aa0ba902b7-01"
    traces = [uuid.uuid4().hex for _ in range(3)]
    of_rpc, of_rest, of_old = [{"traceparent": header.format(trace)} for trace in traces]
    await ada_at("echo").call("SendMessage", {"message": message(), "configuration": AT_ONCE}, of_rpc)
    body = {"message": message(), "configuration": AT_ONCE}
    await ada_rests("echo").ask("POST", "message:send", body, headers=of_rest)
    await old_at("echo").call("message/send", {"message": said(), "configuration": {"blocking": False}}, of_old)
    found = await db.run(lambda: list(Run.objects.order_by("task__created_at").values_list("traceparent", flat=True)))
    assert [trace[3:35] for trace in found] == traces
