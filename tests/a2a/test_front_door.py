"""At the front door `tenant` names the agent; one card shows all public agents."""

import pytest
from a2a.types import a2a_pb2 as a2a
from a2a.utils.proto_utils import validate_proto_required_fields

from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from parley import db as database
from tests.a2a.calling import Caller, message, strictly_parsed, text_of
from tests.a2a.conftest import ECHO
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)

CARD = "/.well-known/agent-card.json"


@pytest.fixture
def door(ada_key):
    return Caller("", ada_key), Resource("", ada_key)


async def test_tenant_names_the_agent(worker, door, echo, hello):
    rpc, rest = door
    sent = await rpc.call("SendMessage", {"tenant": "echo", "message": message("one")})
    task = sent.result["task"]
    again = await rest.ask("POST", "message:send", {"tenant": "echo", "message": message("two")})
    assert text_of(again.body["task"]["artifacts"][0]) == "two"
    assert (await rpc.call("GetTask", {"tenant": "echo", "id": task["id"]})).result == task
    assert (await rest.ask("GET", f"tasks/{task['id']}?tenant=echo")).body == task
    assert len((await rest.ask("GET", "tasks?tenant=echo")).body["tasks"]) == 2
    events = [one async for one in rest.stream("POST", "message:stream", {"tenant": "echo", "message": message()})]
    assert "task" in events[0][1]


async def test_door_lists_all_visible_tasks(door, anybody_at, echo, quiet):
    rpc, rest = door
    now = {"configuration": {"returnImmediately": True}}
    sent = [
        (await rpc.call("SendMessage", {"tenant": slug, "message": message(contextId=slug), **now})).result["task"]
        for slug in ("echo", "quiet", "echo")
    ]
    page = (await rpc.call("ListTasks", {"pageSize": 2})).result
    rest_of_it = (await rest.ask("GET", f"tasks?pageSize=2&pageToken={page['nextPageToken']}")).body
    found = page["tasks"] + rest_of_it["tasks"]
    assert [(one["id"], one["metadata"]["agent"]) for one in found] == [
        (task["id"], slug) for task, slug in zip(reversed(sent), ("echo", "quiet", "echo"), strict=True)
    ]
    assert (found[0]["metadata"]["agentName"], page["totalSize"]) == ("Echo", 3)
    assert (await anybody_at("").call("ListTasks", {})).result["tasks"] == []
    for filters, number in (({"contextId": "echo"}, 2), ({"status": "TASK_STATE_FAILED"}, 0)):
        assert (await rpc.call("ListTasks", filters)).result["totalSize"] == number


async def test_router_answers_without_a_tenant(worker, door, anybody_at):
    rpc, rest = door
    router = await database.run(register_hosted, "router", ECHO)
    sent = await rpc.call("SendMessage", {"message": message("hi")})
    assert sent.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len((await rest.ask("GET", "tasks?tenant=router")).body["tasks"]) == 1
    assert (await anybody_at("").call("GetTask", {})).fields == ["tenant"]
    await database.run(register_hosted, "assistant", ECHO)
    await rpc.call("SendMessage", {"message": message("hi")})
    assert len((await rest.ask("GET", "tasks?tenant=assistant")).body["tasks"]) == 1, "the default agent is first"
    await Agent.objects.filter(slug__in=[router.slug, "assistant"]).aupdate(is_enabled=False)
    assert (await rpc.call("GetTask", {})).fields == ["tenant"]


async def card(client, **headers):
    return await client.get(CARD, headers=headers)


async def test_platform_card_shows_every_visible_agent(async_client, echo, public_echo, club):
    first = await card(async_client, **{"A2A-Version": "1.0"})
    shown = strictly_parsed(first.json(), a2a.AgentCard)
    validate_proto_required_fields(shown)
    assert {interface.url for interface in shown.supported_interfaces} == {"http://127.0.0.1:8000/a2a"}
    by_tenant = [(interface.tenant, interface.protocol_binding) for interface in shown.supported_interfaces]
    assert sorted(by_tenant) == sorted((s, b) for s in ("echo", "open-echo") for b in ("JSONRPC", "HTTP+JSON"))
    assert [skill.id for skill in shown.skills] == ["echo/echo", "open-echo/echo"]
    assert "club" not in first.content.decode()
    first = await card(async_client)
    await database.run(register_hosted, "router", ECHO)
    new = await card(async_client, **{"If-None-Match": first["ETag"]})
    interfaces = new.json()["supportedInterfaces"]
    assert ["tenant" in one for one in interfaces] == [False] * 2 + [True] * 6 + [False] * 2, "the router is first"
    assert [one["protocolVersion"] for one in interfaces] == ["1.0"] * 8 + ["0.3"] * 2
    await Agent.objects.aupdate(is_enabled=False)
    response = await card(async_client)
    assert (response.status_code, response.json()["error"]["status"]) == (404, "NOT_FOUND")


async def test_path_without_the_agent_has_no_card(ada_at, echo, club):
    """Resolved by RFC 3986, `.well-known/agent-card.json` of `/a2a/echo` is not the front door's."""
    wrong = await ada_at("echo").client.get("/a2a/.well-known/agent-card.json")
    told = wrong.json()["error"]
    assert (wrong.status_code, told["status"]) == (404, "NOT_FOUND")
    assert "http://127.0.0.1:8000/a2a/echo/" in told["message"]
    assert "club" not in told["message"], "its card is for its members"
