"""At the front door `tenant` names the agent, and one card shows all agents that everybody may see."""

import json

import httpx
import pytest
from a2a.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as a2a
from a2a.utils.proto_utils import validate_proto_required_fields
from django.contrib.auth.models import Group

import bridge
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from tests.a2a import talking
from tests.a2a.calling import Caller, message, strictly_parsed, text_of
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)

ECHO = "apps.showcase.agents.echo:Echo"
CARD = "/.well-known/agent-card.json"


@pytest.fixture
def door(ada_key):
    """Ada at the front door, by each binding."""
    return Caller("", ada_key), Resource("", ada_key)


@pytest.fixture
def router(db):
    return register_hosted("router", ECHO)


@pytest.fixture
def club(ada):
    """An agent for a group that nobody is in."""
    agent = register_hosted("club", ECHO, access=Agent.Access.GROUPS)
    agent.groups.add(Group.objects.create(name="club"))
    return agent


async def test_the_tenant_names_the_agent(worker, door, echo, hello):
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


async def test_a_task_is_not_found_at_another_tenant(worker, door, echo, hello):
    rpc, rest = door
    task = (await rpc.call("SendMessage", {"tenant": "echo", "message": message()})).result["task"]["id"]
    assert (await rpc.call("GetTask", {"tenant": "hello", "id": task})).reason == "TASK_NOT_FOUND"
    assert (await rest.ask("GET", f"tasks/{task}?tenant=hello")).reason == "TASK_NOT_FOUND"
    assert (await rest.ask("GET", "tasks?tenant=hello")).body["tasks"] == []
    assert (await Resource("hello", rest.key).ask("GET", f"tasks/{task}")).reason == "TASK_NOT_FOUND"


async def test_the_front_door_answers_with_a_trailing_slash_too(door, echo):
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"tenant": "echo"}}
    for path in ("/a2a", "/a2a/"):
        assert (await door[0].post(body, path=path)).result["tasks"] == []
    assert (await door[1].ask("GET", "tasks/?tenant=echo")).status == 200


async def test_who_names_no_tenant_is_told_to(door, echo, subtests):
    for params in ({}, {"tenant": ""}, {"tenant": None}):
        with subtests.test(str(params)):
            answer = await door[0].call("ListTasks", params)
            assert (answer.code, answer.fields) == (-32602, ["tenant"])
            assert "Name the agent" in answer.error["message"]
    answer = await door[1].ask("GET", "tasks")
    assert (answer.status, answer.fields) == (400, ["tenant"])
    answer = await door[1].ask("POST", "message:send", {"message": message()})
    assert (answer.status, answer.fields) == (400, ["tenant"])


async def test_a_router_answers_who_names_no_tenant(worker, door, router):
    sent = await door[0].call("SendMessage", {"message": message("hi")})
    assert sent.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len((await door[1].ask("GET", "tasks")).body["tasks"]) == 1
    assert len((await door[1].ask("GET", "tasks?tenant=router")).body["tasks"]) == 1


async def test_a_router_that_may_not_be_used_does_not_show(door, router, anybody_at):
    assert (await anybody_at("").call("ListTasks", {})).fields == ["tenant"]
    router.is_enabled = False
    await bridge.run(router.save)
    assert (await door[0].call("ListTasks", {})).fields == ["tenant"]


async def test_a_tenant_that_cannot_be_is_refused(door, echo, subtests):
    for tenant in (5, ["echo"], "a\nb", "x" * 300):
        with subtests.test(str(tenant)[:20]):
            assert (await door[0].call("ListTasks", {"tenant": tenant})).fields == ["tenant"]
    assert (await door[0].call("ListTasks", [])).fields == ["params"]


async def test_who_may_not_use_the_agent_is_told_what_its_own_address_tells(door, bob_key, anybody_at, echo, club):
    for slug in ("club", "nobody"):
        at_the_door = await door[0].call("ListTasks", {"tenant": slug})
        assert (at_the_door.status, at_the_door.reason) == (404, "AGENT_NOT_FOUND")
    assert (await anybody_at("").call("ListTasks", {"tenant": "echo"})).status == 401
    assert (await Resource("").ask("GET", "tasks?tenant=echo")).status == 401
    assert (await Caller("", "parley_000000000000_wrong").call("ListTasks", {"tenant": "echo"})).status == 401


async def test_anybody_reaches_an_open_agent(worker, anybody_at, public_echo):
    sent = await anybody_at("").call("SendMessage", {"tenant": "open-echo", "message": message()})
    assert sent.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("verb", "path", "code"),
    [("GET", "/a2a/nothing/here/at/all", 404), ("GET", "/a2a/tasks/a/b", 404), ("PUT", "/a2a/tasks", 405)],
)
async def test_what_is_not_there_is_an_error_in_json(server, verb, path, code):
    async with httpx.AsyncClient(base_url=server.url) as http:
        answer = await http.request(verb, path)
    assert answer.status_code == answer.json()["error"]["code"] == code
    assert answer.json()["error"]["status"]


# Its card


async def card(client, **headers):
    return await client.get(CARD, headers=headers)


async def test_the_platforms_card_shows_every_agent_that_everybody_may_see(async_client, echo, public_echo, club):
    response = await card(async_client)
    shown = strictly_parsed(json.loads(response.content), a2a.AgentCard)
    validate_proto_required_fields(shown)
    assert {interface.url for interface in shown.supported_interfaces} == {"http://127.0.0.1:8000/a2a"}
    by_tenant = [(interface.tenant, interface.protocol_binding) for interface in shown.supported_interfaces]
    assert sorted(by_tenant) == sorted((s, b) for s in ("echo", "open-echo") for b in ("JSONRPC", "HTTP+JSON"))
    assert [skill.id for skill in shown.skills] == ["echo/echo", "open-echo/echo"]
    assert "club" not in response.content.decode()


async def test_it_is_also_where_a_client_of_the_front_door_looks(async_client, echo):
    assert (await async_client.get(f"/a2a{CARD}")).content == (await card(async_client)).content


async def test_it_asks_for_a_key_where_one_is_needed(async_client, echo):
    shown = json.loads((await card(async_client)).content)
    assert shown["securityRequirements"] == [{"schemes": {"apiKey": {"list": ["tasks:read", "tasks:write"]}}}]
    await bridge.run(register_hosted, "opened", ECHO, access=Agent.Access.PUBLIC)
    shown = json.loads((await card(async_client)).content)
    assert "securityRequirements" not in shown
    assert set(shown["securitySchemes"]) == {"apiKey"}
    assert ["securityRequirements" in skill for skill in shown["skills"]] == [True, False]
    await bridge.run(echo.delete)
    assert "securitySchemes" not in json.loads((await card(async_client)).content)


async def test_it_promises_what_every_agent_does(async_client, echo, quiet):
    assert json.loads((await card(async_client)).content)["capabilities"]["streaming"] is False
    await bridge.run(quiet.delete)
    assert json.loads((await card(async_client)).content)["capabilities"]["streaming"] is True


async def test_a_router_is_named_first_and_needs_no_tenant(async_client, echo, router):
    interfaces = json.loads((await card(async_client)).content)["supportedInterfaces"]
    assert ["tenant" in interface for interface in interfaces] == [False, False, True, True, True, True, False, False]
    assert [interface["protocolVersion"] for interface in interfaces] == ["1.0"] * 6 + ["0.3"] * 2


async def test_it_is_asked_for_again_cheaply(async_client, echo, hello):
    first = await card(async_client)
    assert first["Cache-Control"] == "public, max-age=300"
    assert (await card(async_client, **{"If-None-Match": first["ETag"]})).status_code == 304
    assert (await card(async_client, **{"If-Modified-Since": first["Last-Modified"]})).status_code == 304
    hello.is_enabled = False
    await bridge.run(hello.save)
    assert (await card(async_client, **{"If-None-Match": first["ETag"]})).status_code == 200
    assert (await async_client.post(CARD)).status_code == 405


async def test_without_an_agent_there_is_no_card(async_client, club):
    response = await card(async_client)
    assert response.status_code == 404
    assert json.loads(response.content)["error"]["status"] == "NOT_FOUND"


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_the_sdks_client_finds_every_agent_by_the_platforms_card(server, binding):
    headers = {"Authorization": f"Bearer {server.demo_key}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        shown = strictly_parsed((await http.get(f"{server.url}{CARD}")).json(), a2a.AgentCard)
        config = ClientConfig(httpx_client=http, streaming=False, supported_protocol_bindings=[binding])
        chosen = next(interface for interface in shown.supported_interfaces if interface.tenant == "echo")
        assert chosen.url == f"{server.url}/a2a"
        others = [interface for interface in shown.supported_interfaces if interface.tenant != "echo"]
        for interface in others:
            shown.supported_interfaces.remove(interface)
        client = ClientFactory(config).create(shown)
        task = (await talking.answer(client, talking.request("hi"))).task
        assert talking.text_of(task.artifacts[0]) == "hi"
        assert (await client.get_task(a2a.GetTaskRequest(id=task.id))).id == task.id
