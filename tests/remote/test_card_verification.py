"""Signatures of cards: keys, canonical form, and changes of key."""

import base64
import json

import jwt
import pytest
from a2a.types import AgentCard
from a2a.utils.signing import create_agent_card_signer
from django.test import override_settings
from google.protobuf.json_format import MessageToDict, ParseDict
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from apps.agents import cards
from apps.agents.identities import card_signatures, identity, signing
from apps.agents.models import Agent
from apps.remote import registration
from apps.remote.agent_cards import card_verification
from apps.remote.errors import BadCard
from tests.remote.card_server import WELL_KNOWN, card, old_card

pytestmark = pytest.mark.django_db
WRONG = "signature is wrong"

JWKS = "/keys/jwks.json"
KEYS = {
    "Ed25519": OKPKey.generate_key("Ed25519"),
    "ES256": ECKey.generate_key("P-256"),
    "ES384": ECKey.generate_key("P-384"),
    "RS256": RSAKey.generate_key(2048),
}


def public(key, kid="one", **more):
    return {**key.as_dict(private=False), "kid": kid, **more}


def signed(told, key, algorithm="ES256", **header):
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    content = card_verification._canonical_forms(told)[0]
    named = {"alg": algorithm, "kid": "one", "typ": "JOSE", **header}
    protected = {name: value for name, value in named.items() if value is not None}
    made = jws.serialize_compact(protected, content, key, registry=registry).split(".")
    return {**told, "signatures": [{"protected": made[0], "signature": made[2]}]}


def base64url(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.fixture
def publish(cards_at):
    def serve(key=KEYS["ES256"], algorithm="ES256", told=None, **header):
        cards_at.pages[JWKS] = {"keys": [public(key, header.get("kid", "one"))]}
        cards_at.pages[WELL_KNOWN] = signed(
            told or cards_at.card(), key, algorithm, **{"jku": cards_at.url + JWKS, **header}
        )
        return cards_at.url

    return serve


@pytest.mark.parametrize("algorithm", KEYS)
def test_cards_signed_by_their_server_pin_the_key(publish, algorithm):
    agent = registration.register_remote("one", url=publish(KEYS[algorithm], algorithm))
    assert agent.remote.signature == "verified"
    [pinned] = agent.remote.pinned_keys
    assert pinned == public(KEYS[algorithm])
    assert not {"d", "p", "q"} & pinned.keys()


def test_a_card_of_this_platform_is_verified(cards_at, echo):
    with override_settings(PUBLIC_BASE_URL=cards_at.url):
        cards_at.pages["/a2a/echo" + WELL_KNOWN] = card_signatures.signed_card(cards.agent_card(echo), echo)
        cards_at.pages["/.well-known/jwks.json"] = identity.key_set()
        agent = registration.register_remote("far-echo", url=f"{cards_at.url}/a2a/echo")
    assert agent.remote.signature == "verified"
    assert agent.remote.pinned_keys[0]["kid"] == signing.signer_of(echo).kid


def test_a_card_that_the_sdk_signed_is_verified(cards_at):
    """The SDK's canonical form also leaves out empty required fields."""
    header = {"kid": "one", "alg": "ES256", "jku": cards_at.url + JWKS, "typ": "JOSE"}
    key = jwt.PyJWK({**KEYS["ES256"].as_dict(private=True), "alg": "ES256"})
    cards_at.pages[JWKS] = {"keys": [public(KEYS["ES256"])]}
    for number, lean in enumerate(({}, {"skills": [], "defaultOutputModes": []})):
        made = create_agent_card_signer(key, header)(ParseDict(cards_at.card(**lean), AgentCard()))
        cards_at.pages[WELL_KNOWN] = MessageToDict(made)
        assert registration.register_remote(f"one-{number}", url=cards_at.url).remote.signature == "verified"


def test_cards_changed_after_signing_are_refused(cards_at, publish):
    url = publish()
    elsewhere = {"url": "https://evil.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    for change in ({"description": "Other."}, {"supportedInterfaces": [elsewhere]}):
        publish()
        cards_at.pages[WELL_KNOWN] |= change
        with pytest.raises(BadCard, match=WRONG):
            registration.register_remote("one", url=url)
    assert not Agent.objects.exists()


def test_key_sets_elsewhere_are_asked_only_if_trusted(cards_at, publish, monkeypatch):
    asked = []

    async def fetch(url, also):
        asked.append(url)
        return [public(KEYS["ES256"])]

    monkeypatch.setattr(card_verification, "_key_set", fetch)
    elsewhere = "https://keys.example/jwks.json"
    url = publish(jku=elsewhere)
    assert registration.register_remote("one", url=url).remote.signature == "unverified"
    assert asked == []
    with override_settings(TRUSTED_KEY_SETS=[elsewhere]):
        assert registration.register_remote("two", url=url).remote.signature == "verified"
        assert registration.register_remote("three", url=publish(jku=None)).remote.signature == "verified"
    assert asked == [elsewhere, elsewhere]


def test_unfit_keys_and_headers_make_signatures_wrong(cards_at, publish):
    weak = lambda: publish(RSAKey.generate_key(1024), "RS256")  # noqa: E731
    critical = {"alg": "ES256", "kid": "one", "jku": cards_at.url + JWKS, "crit": ["magic"], "magic": 1}
    keys = (
        {"kid": "one", "kty": "oct", "k": "YQ"},
        {"kid": "one", "kty": "EC", "crv": "P-256", "x": 1, "y": "!"},
        public(KEYS["ES256"], use="enc"),
    )
    changes = [
        weak,
        *[lambda key=key: cards_at.pages.update({JWKS: {"keys": [key]}}) for key in keys],
        lambda: cards_at.pages[WELL_KNOWN]["signatures"][0].update(protected=base64url(critical)),
    ]
    for change in changes:
        url = publish()
        change()
        with pytest.raises(BadCard, match=WRONG):
            registration.register_remote("one", url=url)


def test_only_signatures_of_listed_algorithms_verify(cards_at, publish):
    url = publish()
    secret = OctKey.import_key(json.dumps(public(KEYS["ES256"])))  # the well-known algorithm confusion attack
    for number, signatures in enumerate(
        (
            signed(cards_at.card(), secret, "HS256", jku=cards_at.url + JWKS)["signatures"],
            [{"protected": base64url({"alg": "none", "kid": "one"}), "signature": ""}],
            [{"protected": "!", "signature": "YQ"}],
            "text",
        )
    ):
        cards_at.pages[WELL_KNOWN] = cards_at.card(signatures=signatures)
        assert registration.register_remote(f"one-{number}", url=url).remote.signature == "unverified", signatures
    publish()
    cards_at.pages[WELL_KNOWN]["signatures"].insert(0, {"protected": "!", "signature": "!"})
    assert registration.register_remote("one", url=url).remote.signature == "verified", "a good one is enough"


def test_pasted_cards_need_keys_of_the_agents_server(cards_at, publish):
    publish()
    text = json.dumps(cards_at.pages[WELL_KNOWN])
    assert registration.register_remote("one", card=text).remote.signature == "verified"
    elsewhere = signed(card("https://agents.example/a2a"), KEYS["ES256"], jku=cards_at.url + JWKS)
    assert registration.register_remote("two", card=json.dumps(elsewhere)).remote.signature == "unverified"


def test_a_pinned_key_needs_no_lookup(cards_at, publish):
    agent = registration.register_remote("one", url=publish())
    publish(told=cards_at.card(description="Other."))
    cards_at.pages[JWKS] = (503, {}, b"")
    assert registration.refresh_card(agent).outcome == "updated"
    agent = Agent.objects.get()
    assert (agent.description, agent.remote.signature) == ("Other.", "verified")
    cards_at.pages[WELL_KNOWN] |= {"description": "Forged."}
    told = registration.refresh_card(agent)
    assert (told.outcome, WRONG in told.reason) == ("failed", True)
    agent = Agent.objects.get()
    assert (agent.description, agent.remote.card_error) == ("Other.", told.reason)
    cards_at.pages[WELL_KNOWN] = cards_at.card()  # the signature is suddenly missing
    assert registration.refresh_card(agent).outcome == "waiting"
    assert Agent.objects.get().remote.signature == "verified"


def test_another_key_waits_for_approval(publish, ada):
    agent = registration.register_remote("one", url=publish())
    publish(KEYS["ES384"], "ES384")
    assert registration.refresh_card(agent).outcome == "waiting"
    agent = Agent.objects.get()
    assert agent.remote.pinned_keys == [public(KEYS["ES256"])]
    assert agent.remote.proposed.note == "Needs approval: another signing key."
    registration.approve_card(agent, ada)
    agent = Agent.objects.get()
    assert agent.remote.pinned_keys == [public(KEYS["ES384"])]
    assert registration.refresh_card(agent).outcome == "unchanged"


def prove_nothing(cards_at, **changes):
    """A card that a key signed of which nobody knows."""
    cards_at.pages[JWKS] = {"keys": [public(KEYS["ES256"])]}
    stranger, jku = ECKey.generate_key("P-256"), cards_at.url + JWKS
    cards_at.pages[WELL_KNOWN] = signed(cards_at.card(**changes), stranger, kid="other", jku=jku)


@override_settings(REQUIRE_TRUSTED_CARDS=True)
def test_only_trusted_cards_register_where_required(cards_at, publish):
    prove_nothing(cards_at)
    with pytest.raises(BadCard, match="verified signature"):
        registration.register_remote("one", url=cards_at.url)
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    with pytest.raises(BadCard, match="unsigned"):
        registration.register_remote("one", url=cards_at.url)
    assert not Agent.objects.exists()
    assert registration.register_remote("one", url=publish()).remote.signature == "verified"


def test_only_trusted_cards_refresh_where_required(cards_at, publish, settings):
    agent = registration.register_remote("one", url=publish())
    unsigned = registration.register_remote("two", card=json.dumps(cards_at.card()))
    settings.REQUIRE_TRUSTED_CARDS = True
    prove_nothing(cards_at, description="Forged.")
    told = registration.refresh_card(agent)
    assert (told.outcome, "verified signature" in told.reason) == ("failed", True)
    assert Agent.objects.get(slug="one").description == "Translates texts."
    unsigned.remote.card_url, unsigned.remote.etag = cards_at.url, '"same"'
    unsigned.remote.save()
    cards_at.pages[WELL_KNOWN] = (304, {}, b"")
    assert registration.refresh_card(unsigned).outcome == "failed", "also one that was registered before"


def test_old_and_incomplete_cards_are_verified_as_sent(publish, cards_at):
    url = f"{cards_at.url}/a2a"
    told = {"name": "A", "url": url, "skills": ["Tell jokes"], "capabilities": ["jokes"], "extra": 1}
    for slug, one, change in (("one", told, {"extra": 2}), ("two", old_card(url), {"url": "https://evil.example/"})):
        assert registration.register_remote(slug, url=publish(told=one)).remote.signature == "verified"
        cards_at.pages[WELL_KNOWN] |= change
        with pytest.raises(BadCard, match=WRONG):
            registration.register_remote(f"{slug}-changed", url=cards_at.url)
