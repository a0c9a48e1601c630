"""A conversation that was switched to another agent, as the A2A endpoints of both show it."""

import uuid

import pytest

import bridge
from apps.agents.registration import register_hosted
from apps.conversations import switching
from apps.conversations.models import Context, Run
from tests.a2a.calling import Caller, message
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)


async def sent(caller, text="hi", **fields):
    return (await caller.send(message(text, **fields))).result["task"]


@pytest.fixture
async def switched(ada, ada_at, echo, hello, worker):
    """Ada talked with echo, then switched to another; both endpoints, and the task of the first."""
    other = await bridge.run(register_hosted, "other", "apps.showcase.agents.echo:Echo")
    first = await sent(ada_at("echo"), contextId="talk")
    context = await bridge.run(Context.objects.get)
    await bridge.run(switching.switch, ada.principal, context.pk, other)
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
    assert "in use with another agent. Choose another" in refused.error["message"]
    assert "no such conversation" in (await old.call("contexts/clear", {"contextId": "talk"})).error["message"]
    assert (await new.call("contexts/clear", {"contextId": "talk"})).result == {}


async def test_each_message_says_which_agent_wrote_it(switched):
    _, new, first = switched
    second = await sent(new, "and", contextId="talk")
    assert first["status"]["message"]["metadata"] == {"agent": "echo"}
    assert second["status"]["message"]["metadata"] == {"agent": "other"}
    assert [one.get("metadata") for one in second["history"]] == [None, {"agent": "other"}]


async def test_an_answer_without_a_task_says_it_too(ada_at, hello):
    answer = (await ada_at("hello").send(message("hi"))).result["message"]
    assert answer["metadata"]["agent"] == "hello"


@pytest.mark.parametrize("binding", ["json-rpc", "http+json", "0.3"])
async def test_the_callers_trace_goes_on_over_every_binding(ada_key, echo, worker, binding):
    trace = uuid.uuid4().hex
    header = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    match binding:
        case "json-rpc":
            await Caller("echo", ada_key).call("SendMessage", {"message": message()}, header)
        case "http+json":
            await Resource("echo", ada_key).ask("POST", "message:send", {"message": message()}, headers=header)
        case _:
            said = {"kind": "message", "messageId": trace, "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
            await Caller("echo", ada_key, version="0.3").call("message/send", {"message": said}, header)
    run = await bridge.run(Run.objects.get)
    assert run.traceparent[3:35] == trace
