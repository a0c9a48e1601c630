"""Clients of 0.3 find their card at its old path, or by version."""

import json

import jwt
import pytest
import rfc8785
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types as old
from a2a.types import a2a_pb2
from a2a.utils.signing import create_signature_verifier
from google.protobuf import json_format

import db
from apps.a2a.v0_3 import downgrade_card
from apps.agents import card_signatures, cards, identity, signing
from apps.remote.cards import read_card
from tests.a2a.old_calling import strictly_read, told

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/a2a/echo/.well-known/agent-card.json"
OLD_PATH = "/a2a/echo/.well-known/agent.json"
URL = "http://127.0.0.1:8000/a2a/echo"


async def card(client, path, version="", **headers):
    return await client.get(path, headers={"A2A-Version": version} | headers if version else headers)


async def test_the_old_card_says_in_words_of_0_3_what_the_card_says(async_client, echo, public_echo):
    response = await card(async_client, OLD_PATH)
    shown = strictly_read(response.json(), old.AgentCard)
    assert (shown.protocol_version, shown.url, shown.preferred_transport) == ("0.3.0", URL, "JSONRPC")
    assert {(one.url, one.transport) for one in shown.additional_interfaces} == {(URL, "JSONRPC"), (URL, "HTTP+JSON")}
    assert shown.capabilities.streaming
    assert shown.supports_authenticated_extended_card is False
    assert {"apiKey": ["tasks:read", "tasks:write"]} in shown.security
    scheme = shown.security_schemes["apiKey"].root
    assert (scheme.type, scheme.scheme) == ("http", "Bearer")
    new = cards.agent_card(echo)
    for name in ("name", "description", "version", "skills", "defaultInputModes", "defaultOutputModes", "provider"):
        assert response.json()[name] == new[name]
    signed = new | {"signatures": [{"protected": "a", "signature": "b"}]}
    assert "signatures" not in downgrade_card(signed), "it is one of the new card"
    opened = await card(async_client, OLD_PATH.replace("echo", "open-echo"))
    assert not {"security", "securitySchemes"} & opened.json().keys()


async def test_who_names_a_version_gets_its_card(async_client, echo, subtests):
    both, new, former = ["supportedInterfaces", "url"], ["supportedInterfaces"], ["url"]
    for path, version, fields in (
        (PATH, "", both),
        (PATH, "1.0", new),
        (PATH, "0.3", former),
        (PATH, "0.3.0", former),
        (f"{PATH}?A2A-Version=0.3", "", former),
        (OLD_PATH, "1.0", former),
    ):
        with subtests.test(f"{path} {version}"):
            shown = (await card(async_client, path, version)).json()
            assert [name for name in both if name in shown] == fields


async def test_the_card_for_both_can_be_switched_off(async_client, echo, settings):
    settings.CARDS_FOR_OLD_CLIENTS = False
    assert "url" not in (await card(async_client, PATH)).json()


SWITCHES = {"the agent's switch": (True, False), "the setting": (False, True)}


@pytest.mark.parametrize("switched_on_by", SWITCHES)
async def test_one_card_can_serve_both_versions(async_client, echo, settings, switched_on_by):
    echo.capabilities = {"extensions": [{"uri": "https://example.com/ext/v1", "params": {"most": 5}}]}
    echo.card_for_old_clients, settings.CARDS_FOR_OLD_CLIENTS = SWITCHES[switched_on_by]
    await echo.asave()
    both, new, former = [(await card(async_client, PATH, version)).json() for version in ("", "1.0", "0.3")]
    shown = old.AgentCard.model_validate(both)
    alone = old.AgentCard.model_validate(former)
    alone.signatures, alone.capabilities = shown.signatures, shown.capabilities
    assert shown == alone
    unsigned = {name: value for name, value in new.items() if name != "signatures"}
    named = {name: value for name, value in both.items() if name in unsigned and name != "securitySchemes"}
    assert named == {name: value for name, value in unsigned.items() if name != "securitySchemes"}
    read = parse_agent_card(json.loads(json.dumps(both)))
    read.ClearField("signatures")
    assert read == json_format.ParseDict(unsigned, a2a_pb2.AgentCard()), "the SDK's client of 1.0 reads the same"
    here = ["127.0.0.1"]
    assert read_card(both, here) == read_card(new | {"signatures": both["signatures"]}, here), "so does another Parley"


async def test_card_for_both_is_signed_twice(async_client, echo):
    both = (await card(async_client, PATH)).json()
    whole, known = both["signatures"]
    keys = await db.run(identity.key_set)
    content = {name: value for name, value in both.items() if name != "signatures"}
    for signature, covered in ((whole, content), (known, card_signatures.card_content(both))):
        detached = f"{signature['protected']}..{signature['signature']}"
        kid = signing.unverified_header(detached)["kid"]
        [key] = [one for one in keys["keys"] if one["kid"] == kid]
        signing.verify_foreign(detached, rfc8785.dumps(covered), key)
    by_id = {one["kid"]: jwt.PyJWK(one) for one in keys["keys"]}
    create_signature_verifier(lambda kid, jku: by_id[str(kid)], ["EdDSA"])(parse_agent_card(both))


async def test_the_front_door_serves_both_where_a_router_answers(async_client, echo, settings):
    settings.ROUTER_AGENT = "router"
    assert "url" not in (await card(async_client, "/.well-known/agent-card.json")).json()
    settings.ROUTER_AGENT = "echo"
    shown = (await card(async_client, "/.well-known/agent-card.json")).json()
    assert old.AgentCard.model_validate(shown).url == "http://127.0.0.1:8000/a2a"
    assert shown["supportedInterfaces"][0]["protocolVersion"] == "1.0"


async def test_the_card_of_1_0_has_no_old_fields_and_names_the_old_version(echo):
    shown = cards.agent_card(echo)
    assert not {"url", "preferredTransport", "additionalInterfaces", "protocolVersion", "security"} & shown.keys()
    assert shown["supportedInterfaces"][0]["protocolVersion"] == "1.0"
    for binding in ("JSONRPC", "HTTP+JSON"):
        assert {"url": URL, "protocolBinding": binding, "protocolVersion": "0.3"} in shown["supportedInterfaces"]


async def test_caches_keep_the_cards_apart(async_client, echo):
    new, former = await card(async_client, PATH), await card(async_client, PATH, "0.3")
    assert new["Vary"] == former["Vary"] == "A2A-Version"
    assert new["ETag"] != former["ETag"]
    assert (await card(async_client, PATH, "0.3", **{"If-None-Match": new["ETag"]})).status_code == 200
    again = await card(async_client, PATH, "0.3", **{"If-None-Match": former["ETag"]})
    assert (again.status_code, again["Vary"], again["ETag"]) == (304, "A2A-Version", former["ETag"])


async def test_the_front_door_has_an_old_card_where_a_router_answers(async_client, old_rests, worker, echo, settings):
    for path, version in (
        ("/.well-known/agent.json", ""),
        ("/.well-known/agent-card.json", "0.3"),
    ):
        settings.ROUTER_AGENT = "router"
        missing = await card(async_client, path, version)
        assert missing.status_code == 404
        assert missing.json()["error"]["status"] == "NOT_FOUND"
        settings.ROUTER_AGENT = "echo"
        shown = strictly_read((await card(async_client, path, version)).json(), old.AgentCard)
        assert shown.url == "http://127.0.0.1:8000/a2a"
    assert (await old_rests("").sent(told("hi")))["artifacts"][0]["parts"] == [{"text": "hi"}]
