"""The extended card needs credentials and the public card's declaration."""

import json

import jwt
import pytest
from a2a.types import a2a_pb2 as a2a
from a2a.utils.signing import create_signature_verifier
from django.core.management import CommandError, call_command

import db as database
from apps.agents import identity
from apps.agents.models import Agent
from tests.a2a.calling import strictly_parsed

pytestmark = pytest.mark.django_db(transaction=True)

SECRET_SKILL = {"id": "secret", "name": "Secret", "description": "For those who know.", "tags": ["hidden"]}
EXTENDED = {"description": "All that it does.", "skills": [SECRET_SKILL]}


async def written(agent, **fields):
    await Agent.objects.filter(pk=agent.pk).aupdate(**fields)


async def public_card(caller):
    path = f"/a2a/{caller.slug}/.well-known/agent-card.json"
    return (await caller.client.get(path, headers=caller.headers())).json()


async def extended_card(caller):
    return await caller.call("GetExtendedAgentCard", {})


async def test_known_callers_are_told_more_and_it_is_signed_too(ada_at, public_echo):
    await written(public_echo, extended_card=EXTENDED)
    public = await public_card(ada_at("open-echo"))
    assert public["capabilities"]["extendedAgentCard"] is True
    extended = (await extended_card(ada_at("open-echo"))).result
    assert extended["description"] == "All that it does."
    assert [skill["id"] for skill in extended["skills"]] == [*(skill["id"] for skill in public["skills"]), "secret"]
    assert "secret" not in json.dumps(public).lower()
    for name in public.keys() - {"description", "skills", "signatures"}:
        assert extended[name] == public[name]
    [key] = (await database.run(identity.key_set))["keys"]
    create_signature_verifier(lambda kid, jku: jwt.PyJWK(key), ["EdDSA"])(strictly_parsed(extended, a2a.AgentCard))


async def test_a_skill_that_it_describes_again_is_told_once(ada_at, echo):
    await written(echo, extended_card={"skills": [{**echo.skills[0], "description": "In full."}]})
    extended = (await extended_card(ada_at("echo"))).result
    assert [skill["description"] for skill in extended["skills"]] == ["In full."]


async def test_nobody_gets_it_without_credentials(anybody_at, public_echo):
    await written(public_echo, extended_card=EXTENDED)
    answer = await extended_card(anybody_at("open-echo"))
    assert (answer.status, answer.reason) == (401, "UNAUTHENTICATED")
    assert "secret" not in json.dumps(answer.body).lower()
    card = await public_card(anybody_at("open-echo"))
    assert "securitySchemes" in card
    assert "securityRequirements" not in card


async def test_what_the_card_does_not_speak_of_or_nobody_wrote_is_not_there(ada_at, anybody_at, echo, public_echo):
    for caller in (ada_at("echo"), anybody_at("open-echo")):
        assert (await extended_card(caller)).reason == "UNSUPPORTED_OPERATION"
    await written(echo, extended_card=EXTENDED, capabilities={"extendedAgentCard": False})
    assert (await public_card(ada_at("echo")))["capabilities"]["extendedAgentCard"] is False
    assert (await extended_card(ada_at("echo"))).reason == "UNSUPPORTED_OPERATION"
    await written(echo, extended_card={}, capabilities={"extendedAgentCard": True})
    assert (await public_card(ada_at("echo")))["capabilities"]["extendedAgentCard"] is True
    answer = await extended_card(ada_at("echo"))
    assert (answer.code, answer.reason) == (-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")


def test_it_can_be_registered_from_a_file(db, tmp_path):
    path = tmp_path / "extended.json"
    path.write_text(json.dumps(EXTENDED))
    command = ("register_agent", "echo", "--handler", "examples.agents.echo:Echo", "--extended-card")
    call_command(*command, str(path))
    assert Agent.objects.get().extended_card == EXTENDED
    path.write_text('{"skills": ["x"]}')
    for name in (path, tmp_path / "nowhere.json"):
        with pytest.raises(CommandError):
            call_command(*command, str(name))
    assert Agent.objects.get().extended_card == EXTENDED
