"""The endpoint does what the protocol and the card say."""

import json
import uuid

import pytest
from a2a.types import a2a_pb2 as a2a
from google.protobuf import json_format

from apps.a2a.operations import OPERATIONS
from apps.agents import cards
from apps.record.models import TaskState
from tests.a2a.calling import RESULTS, message
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)

UNSUPPORTED, NO_TASK, NO_WEBHOOKS, NO_SUCH_METHOD = -32004, -32001, -32003, -32601


def declared(agent):
    return json_format.ParseDict(cards.agent_card(agent), a2a.AgentCard())


def test_operations_and_states_have_the_protocols_names():
    service = a2a.DESCRIPTOR.services_by_name["A2AService"]
    assert {method.name for method in service.methods} == set(OPERATIONS)
    known = set(a2a.TaskState.keys()) - {"TASK_STATE_UNSPECIFIED"}
    assert {state.wire for state in TaskState} == known
    assert all(TaskState.from_wire(name).wire == name for name in known)


async def test_card_says_where_streams_and_webhooks_work(worker, ada_at, echo, quiet):
    for agent in (echo, quiet):
        params, caller, card = {"message": message()}, ada_at(agent.slug), declared(agent)
        assert card.capabilities.streaming == card.capabilities.push_notifications == (agent == echo)
        if card.capabilities.streaming:
            assert [event async for event in caller.stream("SendStreamingMessage", params)]
        else:
            assert (await caller.call("SendStreamingMessage", params)).code == UNSUPPORTED
            assert (await caller.call("SubscribeToTask", {"id": "a"})).code == UNSUPPORTED
        about = {"taskId": str(uuid.uuid4()), "id": "a", "url": "https://hooks.invalid/hook"}
        for method in [one for one in OPERATIONS if "PushNotification" in one]:
            expected = NO_TASK if card.capabilities.push_notifications else NO_WEBHOOKS
            assert (await caller.call(method, about)).code == expected


async def test_only_declared_bindings_and_versions_are_served(ada_at, ada_key, echo):
    interfaces = declared(echo).supported_interfaces
    assert [(one.protocol_binding, one.protocol_version, one.tenant) for one in interfaces] == [
        ("JSONRPC", "1.0", "echo"),
        ("HTTP+JSON", "1.0", "echo"),
        ("JSONRPC", "0.3", ""),
        ("HTTP+JSON", "0.3", ""),
    ]
    assert (await ada_at("echo").call("ListTasks", {"tenant": "echo"})).result["tasks"] == []
    for method in ("message/send", "tasks/get", "contexts/get"):
        assert (await ada_at("echo").call(method, {})).code == NO_SUCH_METHOD
    assert (await Resource("echo", ada_key).ask("GET", "echo/tasks")).body["tasks"] == []


async def test_answers_have_only_the_protocols_fields(worker, ada_at, asking):
    """For any message, the protocol's types can read the whole answer."""
    full = message(
        contextId="here",
        metadata={"a": [1, None, {"b": "ü"}]},
        extensions=["https://example.com/ext"],
        parts=[
            {"text": "hi", "filename": "a.txt", "mediaType": "text/plain", "metadata": {"n": 1}},
            {"data": None},
            {"data": {"deep": [[[]]]}},
            {"raw": "aGk=", "filename": "b.bin"},
            {"url": "https://example.com/c"},
        ],
    )
    task = (await ada_at("asking").send(full)).result["task"]
    answered = message("blue", taskId=task["id"], referenceTaskIds=[task["id"]])
    events = [event async for event in ada_at("asking").stream("SendStreamingMessage", {"message": answered})]
    assert len(events) > 1
    for method, params in (("GetTask", {"id": task["id"]}), ("ListTasks", {"includeArtifacts": True})):
        result = (await ada_at("asking").call(method, params)).result
        parsed = json_format.ParseDict(result, RESULTS[method](), ignore_unknown_fields=False)
        assert json.loads(json_format.MessageToJson(parsed))
