"""The card and the challenges say exactly how to authenticate, and with which scopes."""

import re
from urllib.parse import urlsplit

import pytest
from a2a.types import AgentCard
from django.test import AsyncClient
from google.protobuf.json_format import ParseDict

import db
from apps.accounts.models import ApiKey
from apps.accounts.principals import KEYS, READ, WRITE
from tests.a2a.calling import Caller, message
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)


def said_in(header: str) -> dict[str, str]:
    scheme, _, rest = header.partition(" ")
    assert scheme == "Bearer"
    assert re.fullmatch(r'(\w+="[^"]*"(, )?)+', rest)
    return dict(re.findall(r'(\w+)="([^"]*)"', rest))


async def challenge_of(key: str, method: str = "ListTasks", params=None) -> tuple[int, dict[str, str]]:
    answer = await Caller("echo", key).call(method, params or {})
    return answer.status, said_in(answer.headers["WWW-Authenticate"])


async def test_each_refusal_says_what_is_missing_and_where_tokens_come_from(ada, echo, settings):
    metadata = f"{settings.PUBLIC_BASE_URL}/.well-known/oauth-protected-resource/a2a/echo"
    common = {"realm": "parley", "resource_metadata": metadata}
    everything = f"{READ} {WRITE}"
    assert await challenge_of("") == (401, {**common, "scope": everything})
    assert await challenge_of("x" * 86) == (401, {**common, "error": "invalid_token", "scope": everything})
    assert (await challenge_of("parley_0123456789ab_x"))[1]["error"] == "invalid_token"
    reading = (await db.run(ApiKey.issue, ada, "reads", scopes=[READ]))[1]
    refused = await challenge_of(reading, "SendMessage", {"message": message("hi")})
    assert refused == (403, {**common, "error": "insufficient_scope", "scope": WRITE})
    rest = await Resource("echo", reading).send("POST", "message:send", {"message": message("hi")})
    assert (rest.status_code, said_in(rest["WWW-Authenticate"])) == refused


async def test_what_the_metadata_name_is_there(echo):
    _, said = await challenge_of("")
    told = (await AsyncClient().get(urlsplit(said["resource_metadata"]).path)).json()
    assert told["resource"].endswith("/a2a/echo")
    assert set(said["scope"].split()) <= set(told["scopes_supported"])


async def test_an_address_that_no_header_can_hold_is_refused_like_any_other(echo):
    answer = await AsyncClient().post('/a2a/e"%0Acho', "{}", content_type="application/json")
    assert answer.status_code in (401, 404)


async def test_the_client_api_says_the_same(ada):
    from tests.api.calling import Caller as Client

    refused = await Client("x" * 86).get("/agents")
    said = said_in(refused.headers["www-authenticate"])
    assert (said["error"], said["resource_metadata"].endswith("/api/v1")) == ("invalid_token", True)
    keyless = Client((await db.run(ApiKey.issue, ada, "reads", scopes=[READ]))[1])
    said = said_in((await keyless.get("/keys")).headers["www-authenticate"])
    assert (said["error"], said["scope"]) == ("insufficient_scope", KEYS)


async def card_of(slug: str) -> dict:
    path = f"/a2a/{slug}/.well-known/agent-card.json"
    return (await AsyncClient().get(path, headers={"A2A-Version": "1.0"})).json()


async def test_a_card_declares_what_is_in_force_and_nothing_for_a_public_agent(echo, public_echo, settings):
    declared = ParseDict(await card_of("echo"), AgentCard())
    flows = {
        name: one.oauth2_security_scheme.flows.WhichOneof("flow") for name, one in declared.security_schemes.items()
    }
    assert flows == {
        "apiKey": None,
        "oauthCode": "authorization_code",
        "oauthDevice": "device_code",
        "oauthClient": "client_credentials",
    }
    code = declared.security_schemes["oauthCode"].oauth2_security_scheme.flows.authorization_code
    assert set(code.scopes) == {READ, WRITE, "agent:echo"}
    assert code.pkce_required
    server = (await AsyncClient().get("/.well-known/oauth-authorization-server")).json()
    assert (code.authorization_url, code.token_url) == (server["authorization_endpoint"], server["token_endpoint"])
    assert {name for one in declared.security_requirements for name in one.schemes} == set(flows)
    assert not {"securitySchemes", "securityRequirements"} & (await card_of("open-echo")).keys()
    old = (await AsyncClient().get("/a2a/echo/.well-known/agent.json")).json()
    assert set(old["securitySchemes"]) == set(flows)
    settings.OAUTH_ENABLED = False
    assert set((await card_of("echo"))["securitySchemes"]) == {"apiKey"}
