"""Clients of 0.3 find a card of theirs at its old path, or by naming their version."""

import json

import pytest
from a2a.compat.v0_3 import types as old

from apps.a2a.old.cards import old_card
from apps.agents import cards
from tests.a2a.old_calling import strictly_read

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/a2a/echo/.well-known/agent-card.json"
OLD_PATH = "/a2a/echo/.well-known/agent.json"
URL = "http://127.0.0.1:8000/a2a/echo"


async def card(caller, path, version="", **headers):
    return await caller.client.get(path, headers={"A2A-Version": version} | headers if version else headers)


async def test_the_old_card_says_in_words_of_0_3_what_the_card_says(anybody_at, echo):
    response = await card(anybody_at("echo"), OLD_PATH)
    shown = strictly_read(json.loads(response.content), old.AgentCard)
    assert (shown.protocol_version, shown.url, shown.preferred_transport) == ("0.3.0", URL, "JSONRPC")
    assert (shown.url, shown.preferred_transport) in {(one.url, one.transport) for one in shown.additional_interfaces}
    assert shown.capabilities.streaming
    assert shown.supports_authenticated_extended_card is False
    assert shown.security == [{"apiKey": ["tasks:read", "tasks:write"]}]
    assert (shown.security_schemes["apiKey"].root.type, shown.security_schemes["apiKey"].root.scheme) == (
        "http",
        "Bearer",
    )
    new = cards.card(echo)
    for name in ("name", "description", "version", "skills", "defaultInputModes", "defaultOutputModes", "provider"):
        assert json.loads(response.content)[name] == new[name]


async def test_who_names_a_version_gets_its_card(anybody_at, echo, subtests):
    for path, version, is_old in (
        (PATH, "", False),
        (PATH, "1.0", False),
        (PATH, "0.3", True),
        (PATH, "0.3.0", True),
        (f"{PATH}?A2A-Version=0.3", "", True),
        (OLD_PATH, "1.0", True),
    ):
        with subtests.test(f"{path} {version}"):
            shown = json.loads((await card(anybody_at("echo"), path, version)).content)
            assert ("url" in shown) == is_old
            assert ("supportedInterfaces" in shown) != is_old


async def test_the_card_of_1_0_has_no_old_fields_and_names_the_old_version(echo):
    shown = cards.card(echo)
    assert not {"url", "preferredTransport", "additionalInterfaces", "protocolVersion", "security"} & shown.keys()
    assert shown["supportedInterfaces"][0]["protocolVersion"] == "1.0"
    for binding in ("JSONRPC", "HTTP+JSON"):
        assert {"url": URL, "protocolBinding": binding, "protocolVersion": "0.3"} in shown["supportedInterfaces"]


async def test_caches_keep_the_cards_apart(anybody_at, echo):
    new = await card(anybody_at("echo"), PATH)
    former = await card(anybody_at("echo"), PATH, "0.3")
    assert new["Vary"] == former["Vary"] == "A2A-Version"
    assert new["ETag"] != former["ETag"]
    assert (await card(anybody_at("echo"), PATH, "0.3", **{"If-None-Match": new["ETag"]})).status_code == 200
    again = await card(anybody_at("echo"), PATH, "0.3", **{"If-None-Match": former["ETag"]})
    assert (again.status_code, again["Vary"], again["ETag"]) == (304, "A2A-Version", former["ETag"])


async def test_a_public_agents_old_card_asks_for_no_key(anybody_at, public_echo):
    response = await card(anybody_at("open-echo"), "/a2a/open-echo/.well-known/agent.json")
    assert not {"security", "securitySchemes"} & json.loads(response.content).keys()


async def test_an_old_card_of_nobody_is_a_404(anybody_at):
    assert (await card(anybody_at("echo"), "/a2a/nobody/.well-known/agent.json")).status_code == 404


def test_a_signature_of_the_card_is_none_of_the_old_card(echo):
    signed = cards.card(echo) | {"signatures": [{"protected": "a", "signature": "b"}]}
    assert "signatures" not in old_card(signed)
