"""The extended card is for callers with credentials, and only where the public card speaks of it."""

import json

import jwt
import pytest
from a2a.types import a2a_pb2 as a2a
from a2a.utils.signing import create_signature_verifier
from django.core.management import CommandError, call_command

import bridge
from apps.agents import identity
from apps.agents.models import Agent
from tests.a2a.calling import strictly_parsed

pytestmark = pytest.mark.django_db(transaction=True)

SECRET_SKILL = {"id": "secret", "name": "Secret", "description": "For those who know.", "tags": ["hidden"]}
EXTENDED = {"description": "All that it does.", "skills": [SECRET_SKILL]}


async def written(agent, **fields):
    for name, value in fields.items():
        setattr(agent, name, value)
    await agent.asave()


async def public_card(caller):
    response = await caller.client.get(f"/a2a/{caller.slug}/.well-known/agent-card.json")
    return json.loads(response.content)


async def test_known_callers_are_told_more(ada_at, public_echo):
    await written(public_echo, extended_card=EXTENDED)
    public = await public_card(ada_at("open-echo"))
    assert public["capabilities"]["extendedAgentCard"] is True
    extended = (await ada_at("open-echo").call("GetExtendedAgentCard", {})).result
    assert extended["description"] == "All that it does."
    assert [skill["id"] for skill in extended["skills"]] == [*(skill["id"] for skill in public["skills"]), "secret"]
    assert "secret" not in json.dumps(public).lower()
    for name in public.keys() - {"description", "skills", "signatures"}:
        assert extended[name] == public[name]


async def test_it_is_signed_like_the_public_one(ada_at, echo):
    await written(echo, extended_card=EXTENDED)
    extended = (await ada_at("echo").call("GetExtendedAgentCard", {})).result
    [key] = (await bridge.run(identity.key_set))["keys"]
    verify = create_signature_verifier(lambda kid, jku: jwt.PyJWK(key), ["EdDSA"])
    verify(strictly_parsed(extended, a2a.AgentCard))


async def test_a_skill_that_it_describes_again_is_told_once(ada_at, echo):
    again = {**echo.skills[0], "description": "In full."}
    await written(echo, extended_card={"skills": [again]})
    extended = (await ada_at("echo").call("GetExtendedAgentCard", {})).result
    assert [skill["description"] for skill in extended["skills"]] == ["In full."]


async def test_nobody_gets_it_without_credentials(anybody_at, public_echo):
    await written(public_echo, extended_card=EXTENDED)
    answer = await anybody_at("open-echo").call("GetExtendedAgentCard", {})
    assert (answer.status, answer.reason) == (401, "UNAUTHENTICATED")
    assert "secret" not in json.dumps(answer.body).lower()
    card = await public_card(anybody_at("open-echo"))
    assert "securitySchemes" in card  # how to sign in for it
    assert "securityRequirements" not in card  # everything else is open


async def test_where_the_card_does_not_speak_of_it_there_is_none(ada_at, anybody_at, echo, public_echo):
    assert (await ada_at("echo").call("GetExtendedAgentCard", {})).reason == "UNSUPPORTED_OPERATION"
    assert (await anybody_at("open-echo").call("GetExtendedAgentCard", {})).reason == "UNSUPPORTED_OPERATION"
    await written(echo, extended_card=EXTENDED, capabilities={"extendedAgentCard": False})
    assert (await public_card(ada_at("echo")))["capabilities"]["extendedAgentCard"] is False
    assert (await ada_at("echo").call("GetExtendedAgentCard", {})).reason == "UNSUPPORTED_OPERATION"


async def test_one_that_is_spoken_of_and_not_written_is_not_configured(ada_at, echo):
    await written(echo, capabilities={"extendedAgentCard": True})
    assert (await public_card(ada_at("echo")))["capabilities"]["extendedAgentCard"] is True
    answer = await ada_at("echo").call("GetExtendedAgentCard", {})
    assert (answer.code, answer.reason) == (-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")


def test_it_can_be_registered_from_a_file(db, tmp_path):
    (tmp_path / "extended.json").write_text(json.dumps(EXTENDED))
    command = ("register_agent", "echo", "--handler", "apps.showcase.agents.echo:Echo", "--extended-card")
    call_command(*command, str(tmp_path / "extended.json"))
    assert Agent.objects.get().extended_card == EXTENDED
    (tmp_path / "extended.json").write_text('{"skills": ["x"]}')
    for name in ("extended.json", "nowhere.json"):
        with pytest.raises(CommandError):
            call_command(*command, str(tmp_path / name))
    assert Agent.objects.get().extended_card == EXTENDED
