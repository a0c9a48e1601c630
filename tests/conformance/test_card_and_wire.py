"""What the protocol defines and the card declares, the endpoint does, and no more."""

import json
import uuid

import pytest
from a2a.types import a2a_pb2 as a2a
from google.protobuf import json_format

from apps.a2a.operations import OPERATIONS
from apps.conversations.lifecycle import TaskState
from tests.a2a.calling import RESULTS, message
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)

UNSUPPORTED = -32004
NO_TASK = -32001
NO_WEBHOOKS = -32003
NO_SUCH_METHOD = -32601


def declared(agent):
    """The agent's card, as the endpoint's callers read it."""
    from apps.agents import cards

    return json_format.ParseDict(cards.card(agent), a2a.AgentCard())


def test_every_operation_of_the_protocol_has_a_method():
    service = a2a.DESCRIPTOR.services_by_name["A2AService"]
    assert {method.name for method in service.methods} == set(OPERATIONS)


def test_every_state_has_the_protocols_name():
    known = set(a2a.TaskState.keys()) - {"TASK_STATE_UNSPECIFIED"}
    assert {state.wire for state in TaskState} == known
    assert all(TaskState.from_wire(name).wire == name for name in known)


@pytest.fixture(params=["echo", "quiet"])
def agent(request):
    return request.getfixturevalue(request.param)


async def test_streams_work_where_the_card_says_so(worker, ada_at, agent):
    params = {"message": message()}
    if declared(agent).capabilities.streaming:
        assert [event async for event in ada_at(agent.slug).stream("SendStreamingMessage", params)]
    else:
        assert (await ada_at(agent.slug).call("SendStreamingMessage", params)).code == UNSUPPORTED
        assert (await ada_at(agent.slug).call("SubscribeToTask", {"id": "a"})).code == UNSUPPORTED


async def test_webhooks_are_taken_where_the_card_says_so(ada_at, agent):
    about = {"taskId": str(uuid.uuid4()), "id": "a", "url": "https://hooks.invalid/hook"}
    expected = NO_TASK if declared(agent).capabilities.push_notifications else NO_WEBHOOKS
    for method in OPERATIONS:
        if "PushNotification" in method:
            assert (await ada_at(agent.slug).call(method, about)).code == expected


async def test_the_extended_card_is_refused_where_the_card_declares_none(ada_at, agent):
    assert not declared(agent).capabilities.extended_agent_card
    assert (await ada_at(agent.slug).call("GetExtendedAgentCard", {})).code == UNSUPPORTED


async def test_the_declared_bindings_and_versions_are_served_and_no_others(ada_at, ada_key, agent):
    interfaces = declared(agent).supported_interfaces
    assert [(one.protocol_binding, one.protocol_version, one.tenant) for one in interfaces] == [
        ("JSONRPC", "1.0", agent.slug),
        ("HTTP+JSON", "1.0", agent.slug),
        ("JSONRPC", "0.3", ""),
        ("HTTP+JSON", "0.3", ""),
    ]
    call = ada_at(agent.slug)
    assert (await call.call("ListTasks", {"tenant": agent.slug})).result["tasks"] == []
    for method in ("message/send", "tasks/get", "contexts/get"):
        assert (await call.call(method, {})).code == NO_SUCH_METHOD
    listed = await Resource(agent.slug, ada_key).ask("GET", f"{agent.slug}/tasks")
    assert listed.body["tasks"] == []


async def test_who_must_sign_in_stands_in_the_card(anybody_at, echo, public_echo):
    for agent in (echo, public_echo):
        answer = await anybody_at(agent.slug).call("ListTasks", {})
        assert (answer.status == 401) == bool(declared(agent).security_requirements)


async def test_what_is_sent_has_no_fields_but_the_protocols(worker, ada_at, asking):
    """Whatever shape a message has, all that comes back can be read by the protocol's own types."""
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
