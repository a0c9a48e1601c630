"""At the front door `tenant` names the agent; one card shows all public agents."""

from urllib.parse import urljoin

import pytest
from a2a.types import a2a_pb2 as a2a
from a2a.utils.proto_utils import validate_proto_required_fields

import db as database
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from tests.a2a.calling import Caller, message, strictly_parsed, text_of
from tests.a2a.conftest import ECHO
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)

CARD = "/.well-known/agent-card.json"


@pytest.fixture
def door(ada_key):
    return Caller("", ada_key), Resource("", ada_key)


@pytest.fixture
def router(db):
    return register_hosted("router", ECHO)


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


async def test_a_task_is_not_found_at_another_tenant(door, echo, hello):
    rpc, rest = door
    sent = {"message": message(), "configuration": {"returnImmediately": True}}
    task = (await rpc.call("SendMessage", {"tenant": "echo", **sent})).result["task"]["id"]
    assert (await rpc.call("GetTask", {"tenant": "hello", "id": task})).reason == "TASK_NOT_FOUND"
    assert (await rest.ask("GET", f"tasks/{task}?tenant=hello")).reason == "TASK_NOT_FOUND"
    assert (await rest.ask("GET", "tasks?tenant=hello")).body["tasks"] == []
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"tenant": "echo"}}
    for path in ("/a2a", "/a2a/"):
        assert [one["id"] for one in (await rpc.post(body, path=path)).result["tasks"]] == [task]
    assert (await rest.ask("GET", "tasks/?tenant=echo")).status == 200


async def test_who_names_no_tenant_or_none_that_can_be_is_told_so(door, echo, subtests):
    for params in ({}, {"tenant": ""}, {"tenant": None}):
        with subtests.test(str(params)):
            answer = await door[0].call("GetTask", params)
            assert (answer.code, answer.fields) == (-32602, ["tenant"])
            assert "Name the agent" in answer.error["message"]
    for tenant in (5, ["echo"], "a\nb", "x" * 300):
        with subtests.test(str(tenant)[:20]):
            assert (await door[0].call("ListTasks", {"tenant": tenant})).fields == ["tenant"]
    assert (await door[0].call("ListTasks", [])).fields == ["params"]
    answer = await door[1].ask("POST", "message:send", {"message": message()})
    assert (answer.status, answer.fields) == (400, ["tenant"])


async def test_the_door_lists_all_visible_tasks(door, bob_at, anybody_at, echo, quiet):
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
    assert (await bob_at("").call("ListTasks", {})).result["tasks"] == []
    assert (await bob_at("").call("ListTasks", {"pageToken": page["nextPageToken"]})).fields == ["pageToken"]
    assert (await anybody_at("").call("ListTasks", {})).result["tasks"] == []
    for filters, number in (({"contextId": "echo"}, 2), ({"contextId": "no"}, 0), ({"status": "TASK_STATE_FAILED"}, 0)):
        assert (await rpc.call("ListTasks", filters)).result["totalSize"] == number


async def test_the_default_agent_answers_before_a_router(worker, door, router):
    await database.run(register_hosted, "assistant", ECHO)
    await door[0].call("SendMessage", {"message": message("hi")})
    assert len((await door[1].ask("GET", "tasks?tenant=assistant")).body["tasks"]) == 1
    assert (await door[1].ask("GET", "tasks?tenant=router")).body["tasks"] == []


async def test_a_router_answers_who_names_no_tenant_and_may_use_it(worker, door, router, anybody_at):
    sent = await door[0].call("SendMessage", {"message": message("hi")})
    assert sent.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len((await door[1].ask("GET", "tasks")).body["tasks"]) == 1
    assert len((await door[1].ask("GET", "tasks?tenant=router")).body["tasks"]) == 1
    assert (await anybody_at("").call("GetTask", {})).fields == ["tenant"]
    router.is_enabled = False
    await database.run(router.save)
    assert (await door[0].call("GetTask", {})).fields == ["tenant"]


async def test_who_may_not_use_the_agent_is_told_what_its_own_address_tells(
    worker, bob_at, anybody_at, echo, public_echo, club
):
    for slug in ("club", "nobody"):
        at_the_door = await bob_at("").call("ListTasks", {"tenant": slug})
        assert (at_the_door.status, at_the_door.reason) == (404, "AGENT_NOT_FOUND")
    for caller in (anybody_at(""), Caller("", "parley_000000000000_wrong")):
        assert (await caller.call("ListTasks", {"tenant": "echo"})).status == 401
    refused = await Resource("").ask("GET", "tasks?tenant=echo")
    assert (refused.status, 'realm="parley"' in refused.headers["WWW-Authenticate"]) == (401, True)
    sent = await anybody_at("").call("SendMessage", {"tenant": "open-echo", "message": message()})
    assert sent.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def card(client, **headers):
    return await client.get(CARD, headers=headers)


async def test_the_platforms_card_shows_every_agent_that_everybody_may_see(async_client, echo, public_echo, club):
    response = await card(async_client, **{"A2A-Version": "1.0"})
    shown = strictly_parsed(response.json(), a2a.AgentCard)
    validate_proto_required_fields(shown)
    assert {interface.url for interface in shown.supported_interfaces} == {"http://127.0.0.1:8000/a2a"}
    by_tenant = [(interface.tenant, interface.protocol_binding) for interface in shown.supported_interfaces]
    assert sorted(by_tenant) == sorted((s, b) for s in ("echo", "open-echo") for b in ("JSONRPC", "HTTP+JSON"))
    assert [skill.id for skill in shown.skills] == ["echo/echo", "open-echo/echo"]
    assert "club" not in response.content.decode()


async def test_an_unlisted_agent_is_not_on_it_and_has_its_own_card_and_address(async_client, echo, public_echo):
    await database.run(lambda: Agent.objects.filter(pk=public_echo.pk).update(listed=False))
    assert [skill["id"] for skill in (await card(async_client)).json()["skills"]] == ["echo/echo"]
    own = await async_client.get("/a2a/open-echo/.well-known/agent-card.json")
    assert own.status_code == 200


async def test_it_asks_for_a_key_where_one_is_needed(async_client, echo):
    shown = (await card(async_client)).json()
    scopes = {"list": ["tasks:read", "tasks:write"]}
    assert shown["securityRequirements"] == [{"schemes": {name: scopes}} for name in shown["securitySchemes"]]
    await database.run(register_hosted, "opened", ECHO, access=Agent.Access.PUBLIC)
    shown = (await card(async_client)).json()
    assert "securityRequirements" not in shown
    assert set(shown["securitySchemes"]) == {"apiKey", "oauthCode", "oauthDevice", "oauthClient"}
    assert ["securityRequirements" in skill for skill in shown["skills"]] == [True, False]
    await database.run(echo.delete)
    assert "securitySchemes" not in (await card(async_client)).json()


async def test_it_promises_what_every_agent_does_and_names_a_router_first(async_client, echo, quiet):
    assert (await card(async_client)).json()["capabilities"]["streaming"] is False
    await database.run(quiet.delete)
    assert (await card(async_client)).json()["capabilities"]["streaming"] is True
    await database.run(register_hosted, "router", ECHO)
    interfaces = (await card(async_client)).json()["supportedInterfaces"]
    assert ["tenant" in interface for interface in interfaces] == [False, False, True, True, True, True, False, False]
    assert [interface["protocolVersion"] for interface in interfaces] == ["1.0"] * 6 + ["0.3"] * 2


async def test_it_is_asked_for_again_cheaply_and_not_there_without_an_agent(async_client, echo, club):
    first = await card(async_client)
    assert first["Cache-Control"] == "public, max-age=300"
    assert (await card(async_client, **{"If-None-Match": first["ETag"]})).status_code == 304
    assert (await card(async_client, **{"If-Modified-Since": first["Last-Modified"]})).status_code == 304
    await database.run(register_hosted, "hello", ECHO)
    assert (await card(async_client, **{"If-None-Match": first["ETag"]})).status_code == 200
    assert (await async_client.post(CARD)).status_code == 405
    await Agent.objects.filter(slug__in=["echo", "hello"]).aupdate(is_enabled=False)
    response = await card(async_client)
    assert (response.status_code, response.json()["error"]["status"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("name", ["agent-card.json", "agent.json"])
async def test_a_path_without_the_agent_has_no_card(ada_at, echo, club, name):
    """Resolved by RFC 3986, `.well-known/agent-card.json` of `/a2a/echo` is not the front door's."""
    wrong = await ada_at("echo").client.get(urljoin("/a2a/echo", f".well-known/{name}"))
    told = wrong.json()["error"]
    assert (wrong.status_code, told["status"]) == (404, "NOT_FOUND")
    assert "http://127.0.0.1:8000/a2a/echo/" in told["message"]
    assert "club" not in told["message"], "its card is for its members"
    right = await ada_at("echo").client.get(urljoin("/a2a/echo/", f".well-known/{name}"))
    assert right.json()["name"] == echo.name
