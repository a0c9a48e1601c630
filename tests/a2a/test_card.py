"""The card says what the endpoint does, and caches may keep it."""

import json

import httpx
import pytest
from a2a.types import a2a_pb2 as a2a
from a2a.utils.proto_utils import validate_proto_required_fields
from django.contrib.auth.models import Group

from apps.agents.models import Agent
from tests.a2a.calling import strictly_parsed

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/a2a/echo/.well-known/agent-card.json"


async def card(caller, path=PATH, **headers):
    return await caller.client.get(path, headers=caller.headers(headers))


async def test_a_card_has_all_that_the_protocol_requires(anybody_at, echo):
    response = await card(anybody_at("echo"))
    assert response["Content-Type"] == "application/json"
    shown = strictly_parsed(json.loads(response.content), a2a.AgentCard)
    validate_proto_required_fields(shown)
    assert {interface.url for interface in shown.supported_interfaces} == {"http://127.0.0.1:8000/a2a/echo"}
    current = [interface for interface in shown.supported_interfaces if interface.protocol_version == "1.0"]
    assert [interface.protocol_binding for interface in current] == ["JSONRPC", "HTTP+JSON"]
    assert {interface.tenant for interface in current} == {"echo"}
    assert shown.skills[0].id == "echo"
    assert shown.capabilities.streaming
    assert shown.capabilities.push_notifications
    assert not shown.capabilities.extended_agent_card


async def test_urls_do_not_come_from_the_host_header(server):
    async with httpx.AsyncClient(base_url=server.url, headers={"Host": "localhost"}) as http:
        shown = (await http.get(PATH)).json()
    assert shown["supportedInterfaces"][0]["url"] == f"{server.url}/a2a/echo"


async def test_how_to_sign_in_stands_in_the_card(anybody_at, echo, public_echo):
    closed = json.loads((await card(anybody_at("echo"))).content)
    assert closed["securityRequirements"] == [{"schemes": {"apiKey": {"list": ["tasks:read", "tasks:write"]}}}]
    opened = json.loads((await card(anybody_at("echo"), "/a2a/open-echo/.well-known/agent-card.json")).content)
    assert "securitySchemes" not in opened


async def test_a_card_is_asked_for_again_cheaply(anybody_at, echo):
    first = await card(anybody_at("echo"))
    assert first["Cache-Control"] == "public, max-age=300"
    again = await card(anybody_at("echo"), **{"If-None-Match": first["ETag"]})
    assert again.status_code == 304
    assert again.content == b""
    assert again["ETag"] == first["ETag"]
    since = await card(anybody_at("echo"), **{"If-Modified-Since": first["Last-Modified"]})
    assert since.status_code == 304
    echo.description = "Something new."
    await echo.asave()
    assert (await card(anybody_at("echo"), **{"If-None-Match": first["ETag"]})).status_code == 200


async def test_the_card_of_an_agent_for_a_group_is_for_its_members(ada, ada_at, bob_at, anybody_at, echo):
    group = await Group.objects.acreate(name="club")
    await ada.groups.aadd(group)
    await echo.groups.aadd(group)
    echo.access = Agent.Access.GROUPS
    await echo.asave()
    assert (await card(anybody_at("echo"))).status_code == 401
    stranger = await card(bob_at("echo"))
    assert stranger.status_code == 404
    assert json.loads(stranger.content)["error"]["status"] == "NOT_FOUND"
    member = await card(ada_at("echo"))
    assert member.status_code == 200
    assert member["Cache-Control"].startswith("private")


async def test_a_card_of_nobody_is_a_404_in_json(anybody_at):
    response = await card(anybody_at("echo"), "/a2a/nobody/.well-known/agent-card.json")
    assert response.status_code == 404
    assert json.loads(response.content)["error"] == {
        "code": 404,
        "status": "NOT_FOUND",
        "message": "There is no such agent.",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "AGENT_NOT_FOUND",
                "domain": "a2a-protocol.org",
                "metadata": {},
            }
        ],
    }


async def test_a_card_is_only_read(anybody_at, echo):
    response = await anybody_at("echo").client.post(PATH)
    assert response.status_code == 405
    assert response["Allow"] == "GET, HEAD"
    assert (await anybody_at("echo").client.head(PATH)).status_code == 200
