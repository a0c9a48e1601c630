"""Cards and documents of an agent, of 1.0 and 0.3: complete, cached, for those who may see them, and verifiable."""

import json
import re

import jwt
import pytest
import rfc8785
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types as old
from a2a.types import a2a_pb2
from a2a.types import a2a_pb2 as a2a
from a2a.utils.proto_utils import validate_proto_required_fields
from a2a.utils.signing import create_signature_verifier
from django.core.management import CommandError, call_command
from django.test import AsyncClient
from google.protobuf import json_format
from google.protobuf.json_format import ParseDict

from apps.accounts.models import ApiKey
from apps.accounts.principals import READ, WRITE
from apps.agents import cards
from apps.agents.identities import card_signatures, identity, signing
from apps.agents.identities.signing import clear_signers, rotate_key, signer_of
from apps.agents.models import Agent
from apps.remote.agent_cards.cards import read_card
from parley import db
from tests.a2a.calling import Caller, message, strictly_parsed
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)


CARD = "/a2a/echo/.well-known/agent-card.json"
SECRET_SKILL = {"id": "secret", "name": "Secret", "description": "For those who know.", "tags": ["hidden"]}
EXTENDED = {"description": "All that it does.", "skills": [SECRET_SKILL]}


async def got(caller, path=CARD, **headers):
    return await caller.client.get(path, headers=caller.headers(headers))


async def written(agent, **fields):
    await Agent.objects.filter(pk=agent.pk).aupdate(**fields)


async def public_card(caller):
    return (await got(caller, f"/a2a/{caller.slug}/.well-known/agent-card.json")).json()


async def extended_card(caller):
    return await caller.call("GetExtendedAgentCard", {})


async def test_card_is_complete_and_cached(anybody_at, echo):
    first = await got(anybody_at("echo"))
    assert first["Content-Type"] == "application/json"
    shown = strictly_parsed(first.json(), a2a.AgentCard)
    validate_proto_required_fields(shown)
    assert {interface.url for interface in shown.supported_interfaces} == {"http://127.0.0.1:8000/a2a/echo"}
    assert first["Cache-Control"] == "public, max-age=300"
    again = await got(anybody_at("echo"), **{"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    await written(echo, description="Something new.")
    assert (await got(anybody_at("echo"), **{"If-None-Match": first["ETag"]})).status_code == 200


async def test_extended_card_is_for_known_callers(ada_at, anybody_at, public_echo, club):
    await written(public_echo, extended_card=EXTENDED)
    public = await public_card(anybody_at("open-echo"))
    assert public["capabilities"]["extendedAgentCard"] is True
    assert ("securitySchemes" in public, "securityRequirements" in public) == (True, False)
    refused = await extended_card(anybody_at("open-echo"))
    assert (refused.status, refused.reason) == (401, "UNAUTHENTICATED")
    assert "secret" not in json.dumps([public, refused.body]).lower()
    extended = (await extended_card(ada_at("open-echo"))).result
    assert extended["description"] == "All that it does."
    assert [skill["id"] for skill in extended["skills"]] == [*(skill["id"] for skill in public["skills"]), "secret"]
    for name in public.keys() - {"description", "skills", "signatures"}:
        assert extended[name] == public[name]
    [key] = (await db.run(identity.key_set))["keys"]
    create_signature_verifier(lambda kid, jku: jwt.PyJWK(key), ["EdDSA"])(strictly_parsed(extended, a2a.AgentCard))
    member = await got(ada_at("club"), "/a2a/club/.well-known/agent-card.json")
    assert (member.status_code, member["Cache-Control"].partition(",")[0]) == (200, "private")


async def test_extended_card_needs_its_declaration(ada_at, anybody_at, echo, public_echo):
    for caller in (ada_at("echo"), anybody_at("open-echo")):
        assert (await extended_card(caller)).reason == "UNSUPPORTED_OPERATION"
    await written(echo, extended_card=EXTENDED, capabilities={"extendedAgentCard": False})
    assert (await public_card(ada_at("echo")))["capabilities"]["extendedAgentCard"] is False
    assert (await extended_card(ada_at("echo"))).reason == "UNSUPPORTED_OPERATION"
    await written(echo, extended_card={}, capabilities={"extendedAgentCard": True})
    answer = await extended_card(ada_at("echo"))
    assert (answer.code, answer.reason) == (-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")


async def test_identifier_leads_to_the_agents_document(anybody_at, echo):
    signer = await db.run(signer_of, echo)
    response = await got(anybody_at("echo"), "/a2a/echo/did.json")
    document = response.json()
    assert document["id"] == "did:web:127.0.0.1%3A8000:a2a:echo"
    [method] = document["verificationMethod"]
    assert method["id"] == f"{document['id']}#{signer.kid}"
    assert (method["controller"], method["type"]) == (document["id"], "JsonWebKey2020")
    assert (method["publicKeyJwk"]["crv"], "d" in method["publicKeyJwk"]) == ("Ed25519", False)
    assert document["assertionMethod"] == [method["id"]]
    assert document["service"][0]["serviceEndpoint"] == URL
    await written(echo, is_enabled=False)
    off = (await got(anybody_at("echo"), "/a2a/echo/did.json")).json()
    assert (off["assertionMethod"], off["service"]) == (document["assertionMethod"], []), "it can still be verified"
    assert (await got(anybody_at("echo"))).status_code == 404


async def test_keys_are_published_and_rotated(anybody_at, echo, settings):
    documents = [(await got(anybody_at("echo"), "/.well-known/did.json")).json() for _ in range(2)]
    assert len(documents[0]["verificationMethod"]) == 1, "who never signed is given a key"
    assert documents[0] == documents[1]
    paths = ("/.well-known/jwks.json", CARD)
    await got(anybody_at("echo"))  # makes the agent's key
    keys, card = [await got(anybody_at("echo"), path) for path in paths]
    assert (keys["Content-Type"], keys["Cache-Control"]) == ("application/jwk-set+json", "public, max-age=300")

    async def again():
        tags = zip(paths, (keys, card), strict=True)
        return [await got(anybody_at("echo"), path, **{"If-None-Match": known["ETag"]}) for path, known in tags]

    assert [response.status_code for response in await again()] == [304, 304]
    await db.run(rotate_key, echo)
    new_keys, new_card = [response.json() for response in await again()]
    assert len(new_keys["keys"]) == len(keys.json()["keys"]) + 1
    old_card = card.json()
    assert new_card.pop("signatures") != old_card.pop("signatures"), "a card signed anew is sent again"
    assert new_card == old_card
    assert (await got(anybody_at("echo"), "/.well-known/did.json")).json() == documents[0], "the platform's own"
    clear_signers()
    settings.MASTER_KEY = "A" * 43
    response = await got(anybody_at("echo"))
    assert (response.status_code, response.json()["error"]["status"]) == (503, "UNAVAILABLE"), "it cannot be read"
    assert "MASTER_KEY" not in response.text
    await db.run(rotate_key, echo)
    assert (await got(anybody_at("echo"))).status_code == 200


def said_in(header: str) -> dict[str, str]:
    scheme, _, rest = header.partition(" ")
    assert scheme == "Bearer"
    assert re.fullmatch(r'(\w+="[^"]*"(, )?)+', rest)
    return dict(re.findall(r'(\w+)="([^"]*)"', rest))


async def challenge_of(key: str, method: str = "ListTasks", params=None) -> tuple[int, dict[str, str]]:
    answer = await Caller("echo", key).call(method, params or {})
    return answer.status, said_in(answer.headers["WWW-Authenticate"])


async def test_challenges_say_what_is_missing(ada, echo, settings):
    metadata = f"{settings.PUBLIC_BASE_URL}/.well-known/oauth-protected-resource/a2a/echo"
    common = {"realm": "parley", "resource_metadata": metadata}
    everything = f"{READ} {WRITE}"
    assert await challenge_of("") == (401, {**common, "scope": everything})
    assert await challenge_of("x" * 86) == (401, {**common, "error": "invalid_token", "scope": everything})
    reading = (await db.run(ApiKey.issue, ada, "reads", scopes=[READ]))[1]
    refused = await challenge_of(reading, "SendMessage", {"message": message("hi")})
    assert refused == (403, {**common, "error": "insufficient_scope", "scope": WRITE})
    rest = await Resource("echo", reading).send("POST", "message:send", {"message": message("hi")})
    assert (rest.status_code, said_in(rest["WWW-Authenticate"])) == refused
    odd = await AsyncClient().post('/a2a/e"%0Acho', "{}", content_type="application/json")
    assert odd.status_code in (401, 404), "an address that no header can hold"


async def test_card_declares_the_ways_to_sign_in(anybody_at, echo, public_echo, settings):
    declared = ParseDict(await public_card(anybody_at("echo")), a2a.AgentCard())
    schemes = declared.security_schemes.items()
    flows = {name: one.oauth2_security_scheme.flows.WhichOneof("flow") for name, one in schemes}
    codes = {"oauthCode": "authorization_code", "oauthDevice": "device_code", "oauthClient": "client_credentials"}
    assert flows == {"apiKey": None, **codes}
    code = declared.security_schemes["oauthCode"].oauth2_security_scheme.flows.authorization_code
    assert (set(code.scopes), code.pkce_required) == ({READ, WRITE, "agent:echo"}, True)
    server = (await AsyncClient().get("/.well-known/oauth-authorization-server")).json()
    assert (code.authorization_url, code.token_url) == (server["authorization_endpoint"], server["token_endpoint"])
    assert {name for one in declared.security_requirements for name in one.schemes} == set(flows)
    assert not {"securitySchemes", "securityRequirements"} & (await public_card(anybody_at("open-echo"))).keys()
    settings.OAUTH_ENABLED = False
    assert set((await public_card(anybody_at("echo")))["securitySchemes"]) == {"apiKey"}


OLD_PATH = "/a2a/echo/.well-known/agent.json"
URL = "http://127.0.0.1:8000/a2a/echo"


async def card(client, path, version="", **headers):
    return await client.get(path, headers={"A2A-Version": version} | headers if version else headers)


async def test_named_version_gets_its_card(async_client, echo, settings):
    both, new, former = ["supportedInterfaces", "url"], ["supportedInterfaces"], ["url"]
    rows = ((CARD, "", both), (CARD, "1.0", new), (f"{CARD}?A2A-Version=0.3", "", former), (OLD_PATH, "1.0", former))
    for path, version, fields in rows:
        shown = (await card(async_client, path, version)).json()
        assert [name for name in both if name in shown] == fields, (path, version)
    new, former = await card(async_client, CARD), await card(async_client, CARD, "0.3")
    assert new["Vary"] == former["Vary"] == "A2A-Version"
    assert new["ETag"] != former["ETag"], "caches keep them apart"
    again = await card(async_client, CARD, "0.3", **{"If-None-Match": former["ETag"]})
    assert (again.status_code, again["Vary"], again["ETag"]) == (304, "A2A-Version", former["ETag"])
    settings.CARDS_FOR_OLD_CLIENTS = False
    assert "url" not in (await card(async_client, CARD)).json()


async def test_one_card_serves_both_versions(async_client, echo, settings):
    echo.capabilities = {"extensions": [{"uri": "https://example.com/ext/v1", "params": {"most": 5}}]}
    echo.card_for_old_clients, settings.CARDS_FOR_OLD_CLIENTS = True, False
    await echo.asave()
    both, new, former = [(await card(async_client, CARD, version)).json() for version in ("", "1.0", "0.3")]
    shown = old.AgentCard.model_validate(both)
    alone = old.AgentCard.model_validate(former)
    alone.signatures, alone.capabilities = shown.signatures, shown.capabilities
    assert shown == alone
    assert (alone.protocol_version, alone.url, alone.preferred_transport) == ("0.3.0", URL, "JSONRPC")
    assert {"apiKey": ["tasks:read", "tasks:write"]} in alone.security
    unsigned = {name: value for name, value in new.items() if name != "signatures"}
    named = {name: value for name, value in both.items() if name in unsigned and name != "securitySchemes"}
    assert named == {name: value for name, value in unsigned.items() if name != "securitySchemes"}
    read = parse_agent_card(json.loads(json.dumps(both)))
    read.ClearField("signatures")
    assert read == json_format.ParseDict(unsigned, a2a_pb2.AgentCard()), "the SDK's client of 1.0 reads the same"
    here = ["127.0.0.1"]
    assert read_card(both, here) == read_card(new | {"signatures": both["signatures"]}, here), "so does another Parley"


async def test_card_for_both_is_signed_twice(async_client, echo):
    both = (await card(async_client, CARD)).json()
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


async def test_new_card_has_no_old_fields(echo):
    shown = cards.agent_card(echo)
    assert not {"url", "preferredTransport", "additionalInterfaces", "protocolVersion", "security"} & shown.keys()
    assert shown["supportedInterfaces"][0]["protocolVersion"] == "1.0"
    for binding in ("JSONRPC", "HTTP+JSON"):
        assert {"url": URL, "protocolBinding": binding, "protocolVersion": "0.3"} in shown["supportedInterfaces"]


def test_extended_card_is_registered_from_a_file(db, tmp_path):
    path = tmp_path / "extended.json"
    command = ("register_agent", "echo", "--handler", "examples.agents.echo:Echo", "--extended-card")
    path.write_text(json.dumps(EXTENDED))
    call_command(*command, str(path))
    path.write_text('{"skills": ["x"]}')
    for name in (path, tmp_path / "nowhere.json"):
        with pytest.raises(CommandError):
            call_command(*command, str(name))
    assert Agent.objects.get().extended_card == EXTENDED
