"""Cards are signed over their canonical form (A2A 1.0 §8.4, RFC 8785)."""

import pytest
import rfc8785

from apps.agents import card_signatures, cards, signing
from apps.agents.models import SigningKey
from apps.agents.signing import rotate_key

pytestmark = pytest.mark.django_db(transaction=True)

EXAMPLE = {
    "name": "Example Agent",
    "description": "",
    "capabilities": {"streaming": False, "pushNotifications": False, "extensions": []},
    "skills": [],
}


def test_a_field_stays_where_it_is_required_or_set_and_optional():
    for given, kept in [
        ({"version": ""}, {"version": ""}),
        ({"iconUrl": ""}, {"iconUrl": ""}),
        ({"icon_url": "u"}, {"iconUrl": "u"}),
        ({"iconUrl": None}, {}),
        ({"signatures": [{"protected": "p", "signature": "s"}]}, {}),
        ({"unknown": 1}, {}),
        ({"securityRequirements": []}, {}),
        ({"supportedInterfaces": []}, {"supportedInterfaces": []}),
        (
            {"supportedInterfaces": [{"url": "", "tenant": "", "protocolVersion": ""}]},
            {"supportedInterfaces": [{"url": "", "protocolVersion": ""}]},
        ),
        (
            {"capabilities": {"extensions": [{"uri": "", "required": False, "description": "", "params": {"a": []}}]}},
            {"capabilities": {"extensions": [{"params": {"a": []}}]}},
        ),
        (
            {"securitySchemes": {"k": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": ""}}}},
            {"securitySchemes": {"k": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}},
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


def test_a_card_is_signed_once(echo, monkeypatch, django_assert_num_queries):
    first = card_signatures.signed_card(cards.agent_card(echo), echo)
    monkeypatch.setattr(signing.Signer, "sign", None)
    with django_assert_num_queries(0):
        assert card_signatures.signed_card(cards.agent_card(echo), echo) == first


def test_the_validator_changes_with_the_card_and_its_key_and_with_nothing_else(echo):
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
