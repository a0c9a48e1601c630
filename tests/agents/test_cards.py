"""The SDK's types accept every card, signed over its canonical form (A2A 1.0 §8.4, RFC 8785)."""

import pytest
import rfc8785
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from apps.agents import cards
from apps.agents.identities import card_signatures, signing
from apps.agents.identities.signing import rotate_key
from apps.agents.models import Agent, SigningKey
from apps.agents.registration import register_hosted

pytestmark = pytest.mark.django_db(transaction=True)

BARE = Agent(slug="bare", name="Bare", description="Nothing but a name.", handler="x:Y")


def parsed(agent):
    """The card as the SDK reads it; unknown fields are errors."""
    return ParseDict(cards.agent_card(agent), AgentCard(), ignore_unknown_fields=False)


@pytest.mark.parametrize("described", [True, False])
def test_a_card_has_all_that_the_protocol_requires(described, settings):
    agent = register_hosted("hello", "examples.agents.hello:Hello") if described else BARE
    card = parsed(agent)
    assert all((card.name, card.description, card.version, card.default_input_modes, card.default_output_modes))
    assert card.HasField("capabilities")
    assert card.skills
    for skill in card.skills:
        assert all((skill.id, skill.name, skill.description, skill.tags))
    settings.PUBLIC_BASE_URL = "https://agents.example.org"
    interfaces = parsed(agent).supported_interfaces
    assert {interface.url for interface in interfaces} == {f"https://agents.example.org/a2a/{agent.slug}"}
    assert [(one.protocol_version, one.protocol_binding, one.tenant) for one in interfaces] == [
        ("1.0", "JSONRPC", agent.slug),
        ("1.0", "HTTP+JSON", agent.slug),
        ("0.3", "JSONRPC", ""),
        ("0.3", "HTTP+JSON", ""),
    ]


EXAMPLE = {
    "name": "Example Agent",
    "description": "",
    "capabilities": {"streaming": False, "pushNotifications": False, "extensions": []},
    "skills": [],
}


def test_required_and_set_optional_fields_stay():
    for given, kept in [
        ({"version": ""}, {"version": ""}),
        ({"iconUrl": ""}, {"iconUrl": ""}),
        ({"iconUrl": None}, {}),
        ({"signatures": [{"protected": "p", "signature": "s"}]}, {}),
        ({"unknown": 1}, {}),
        ({"securityRequirements": []}, {}),
        (
            {"supportedInterfaces": [{"url": "", "tenant": "", "protocolVersion": ""}]},
            {"supportedInterfaces": [{"url": "", "protocolVersion": ""}]},
        ),
        (
            {"capabilities": {"extensions": [{"uri": "", "required": False, "description": "", "params": {"a": []}}]}},
            {"capabilities": {"extensions": [{"params": {"a": []}}]}},
        ),
        ({"skills": [{"id": "a", "tags": [], "examples": [], "x": 1}]}, {"skills": [{"id": "a", "tags": []}]}),
    ]:
        assert card_signatures.card_content(given) == kept, given
    assert rfc8785.dumps(card_signatures.card_content(EXAMPLE)) == (
        b'{"capabilities":{"pushNotifications":false,"streaming":false},"description":"","name":"Example Agent",'
        b'"skills":[]}'
    )


def test_what_is_shown_is_what_was_signed(echo):
    shown = card_signatures.signed_card(cards.agent_card(echo), echo)
    [signature] = shown.pop("signatures")
    key = SigningKey.objects.get()
    detached = f"{signature['protected']}..{signature['signature']}"
    signing.verify(detached, rfc8785.dumps(shown), key.public, key.algorithm)
    known = {"alg": "EdDSA", "kid": key.kid, "typ": "JOSE"}
    assert signing.unverified_header(detached) == {**known, "jku": "http://127.0.0.1:8000/.well-known/jwks.json"}
    with pytest.raises(signing.BadSignature):
        signing.verify(detached, rfc8785.dumps({**shown, "name": "Echp"}), key.public, key.algorithm)


def test_the_etag_changes_with_card_and_key(echo):
    def validator():
        return card_signatures.card_etag(card_signatures.signed_card(cards.agent_card(echo), echo))

    rotate_key(echo, "ES256")
    before = validator()
    card_signatures._sign.cache_clear()  # as in another process, with another signature
    assert validator() == before
    assert before.startswith('"')
    echo.description = "Says it differently."
    described = validator()
    assert described != before
    rotate_key(echo)
    assert validator() != described
