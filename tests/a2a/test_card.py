"""The card matches the endpoint, and may be cached."""

import json

import pytest
from a2a.types import a2a_pb2 as a2a
from a2a.utils.proto_utils import validate_proto_required_fields

from tests.a2a.calling import Caller, details_of, strictly_parsed

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/a2a/echo/.well-known/agent-card.json"


async def card(caller, path=PATH, **headers):
    return await caller.client.get(path, headers=caller.headers(headers))


async def test_a_card_has_all_that_the_protocol_requires(anybody_at, echo):
    response = await card(anybody_at("echo"))
    assert response["Content-Type"] == "application/json"
    shown = strictly_parsed(response.json(), a2a.AgentCard)
    validate_proto_required_fields(shown)
    assert {interface.url for interface in shown.supported_interfaces} == {"http://127.0.0.1:8000/a2a/echo"}
    assert shown.skills[0].id == "echo"
    assert shown.capabilities.streaming
    assert shown.capabilities.push_notifications
    assert not shown.capabilities.extended_agent_card


async def test_a_card_is_asked_for_again_cheaply_and_only_read(anybody_at, echo):
    first = await card(anybody_at("echo"))
    assert first["Cache-Control"] == "public, max-age=300"
    again = await card(anybody_at("echo"), **{"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    since = await card(anybody_at("echo"), **{"If-Modified-Since": first["Last-Modified"]})
    assert since.status_code == 304
    echo.description = "Something new."
    await echo.asave()
    assert (await card(anybody_at("echo"), **{"If-None-Match": first["ETag"]})).status_code == 200
    response = await anybody_at("echo").client.post(PATH)
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD")
    assert (await anybody_at("echo").client.head(PATH)).status_code == 200


@pytest.mark.parametrize("document", [".well-known/agent-card.json", ".well-known/agent.json", "did.json"])
async def test_what_an_agent_for_a_group_says_of_itself_is_for_its_members(ada_at, bob_at, anybody_at, club, document):
    path = f"/a2a/club/{document}"
    for caller_at, status in ((bob_at, 404), (anybody_at, 404), (lambda slug: Caller(slug, "wrong"), 401)):
        stranger, nobody = [await card(caller_at("club"), one) for one in (path, path.replace("club", "nobody"))]
        assert stranger.status_code == nobody.status_code == status
        assert stranger.content == nobody.content
    stranger = await card(bob_at("club"), path)
    error = json.loads(stranger.content)["error"]
    assert (error["code"], error["status"]) == (404, "NOT_FOUND")
    assert [one["reason"] for one in details_of(error["details"], "ErrorInfo")] == ["AGENT_NOT_FOUND"]
    member = await card(ada_at("club"), path)
    assert member.status_code == 200
    assert member["Cache-Control"].startswith("private")
