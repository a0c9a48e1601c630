"""Signatures of cards: keys, canonical form, and changes of key."""

import base64
import json
import re

import jwt
import pytest
from a2a.types import AgentCard
from a2a.utils.signing import create_agent_card_signer
from django.test import override_settings
from google.protobuf.json_format import MessageToDict, ParseDict
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from apps.agents import card_signatures, cards, identity, signing
from apps.agents.models import Agent
from apps.remote import card_verification, registration
from apps.remote.errors import BadCard
from tests.remote.card_server import WELL_KNOWN, card, old_card

pytestmark = pytest.mark.django_db
WRONG = "signature is wrong"

JWKS = "/keys/jwks.json"
KEYS = {
    "EdDSA": OKPKey.generate_key("Ed25519"),
    "Ed25519": OKPKey.generate_key("Ed25519"),
    "ES256": ECKey.generate_key("P-256"),
    "ES384": ECKey.generate_key("P-384"),
    "PS256": RSAKey.generate_key(2048),
    "RS256": RSAKey.generate_key(2048),
}


def public(key, kid="one", **more):
    return {**key.as_dict(private=False), "kid": kid, **more}


def signed(told, key, algorithm="ES256", payload=None, **header):
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    content = payload if payload is not None else card_verification._canonical_forms(told)[0]
    named = {"alg": algorithm, "kid": "one", "typ": "JOSE", **header}
    protected = {name: value for name, value in named.items() if value is not None}
    made = jws.serialize_compact(protected, content, key, registry=registry).split(".")
    return {**told, "signatures": [{"protected": made[0], "signature": made[2]}]}


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
def test_a_card_that_its_own_servers_key_signed_is_verified_and_the_key_pinned(publish, algorithm):
    agent = registration.register_remote("one", url=publish(KEYS[algorithm], algorithm))
    assert agent.remote.signature == "verified"
    [pinned] = agent.remote.pinned_keys
    assert pinned == public(KEYS[algorithm])
    assert not {"d", "p", "q"} & pinned.keys()


def test_an_incomplete_card_is_verified_as_sent(publish, cards_at):
    told = {"name": "A", "url": f"{cards_at.url}/a2a", "skills": ["Tell jokes"], "capabilities": ["jokes"], "extra": 1}
    assert registration.register_remote("one", url=publish(told=told)).remote.signature == "verified"
    served = cards_at.pages[WELL_KNOWN]
    cards_at.pages[WELL_KNOWN] = {**served, "extra": 2}
    with pytest.raises(BadCard, match="signature is wrong"):
        registration.register_remote("two", url=cards_at.url)


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


def test_a_card_of_0_3_is_verified_as_it_came(cards_at, publish):
    url = publish(told=old_card(f"{cards_at.url}/a2a"))
    assert registration.register_remote("one", url=url).remote.signature == "verified"
    cards_at.pages[WELL_KNOWN]["url"] = "https://evil.example/"
    with pytest.raises(BadCard, match=WRONG):
        registration.register_remote("two", url=url)


def test_the_signature_of_the_specifications_example_is_read_but_its_key_is_nowhere(cards_at):
    """A2A 1.0 §8.4.2; its `jku` is on example.com."""
    example = {
        "protected": (
            "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpPU0UiLCJraWQiOiJrZXktMSIsImprdSI6"
            "Imh0dHBzOi8vZXhhbXBsZS5jb20vYWdlbnQvandrcy5qc29uIn0"
        ),
        "signature": "QFdkNLNszlGj3z3u0YQGt_T9LixY3qtdQpZmsTdDHDe3fXV9y9-B3m2-XgCpzuhiLt8E0tV6HXoZKHv4GtHgKQ",
    }
    cards_at.pages[WELL_KNOWN] = cards_at.card(signatures=[example])
    agent = registration.register_remote("one", url=cards_at.url)
    assert (agent.remote.signature, agent.remote.pinned_keys) == ("unverified", [])


def test_a_card_that_was_changed_after_it_was_signed_is_refused(cards_at, publish):
    url = publish()
    elsewhere = {"url": "https://evil.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    for change in (
        {"description": "Other."},
        {"supportedInterfaces": [elsewhere]},
        {"securitySchemes": {"k": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}},
    ):
        publish()
        cards_at.pages[WELL_KNOWN] |= change
        with pytest.raises(BadCard, match=WRONG):
            registration.register_remote("one", url=url)
    assert not Agent.objects.exists()


def test_a_key_set_elsewhere_is_not_asked_unless_an_operator_trusts_it(cards_at, publish, monkeypatch):
    asked = []

    async def fetch(url, also):
        if url == "https://away.example/jwks.json":
            raise card_verification._Unverifiable("It is away.")
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
    with override_settings(TRUSTED_KEY_SETS=["https://away.example/jwks.json", elsewhere]):
        assert registration.register_remote("four", url=publish(jku=None)).remote.signature == "verified"


def test_a_key_that_cannot_be_had_leaves_the_signature_unverified(cards_at, publish):
    url = publish()
    none = ((404, {}, b""), b"nothing", {"keys": 1}, {"keys": [1, {"kid": "two"}]}, b'{"keys": ' + b" " * 100_000)
    for number, keys in enumerate(none):
        cards_at.pages[JWKS] = keys
        shown = registration.register_remote(f"one-{number}", url=url).remote
        assert (shown.signature, shown.pinned_keys) == ("unverified", []), keys


def test_a_key_that_cannot_have_signed_makes_the_signature_wrong(cards_at, publish):
    url = publish(RSAKey.generate_key(1024), "RS256")
    with pytest.raises(BadCard, match=WRONG):
        registration.register_remote("one", url=url)
    url = publish()
    for key in (
        {"kid": "one"},
        {"kid": "one", "kty": "oct", "k": "YQ"},
        {"kid": "one", "kty": "EC", "crv": "P-256", "x": 1, "y": "!"},
        public(KEYS["ES256"], use="enc"),
        public(KEYS["ES256"], alg="ES384"),
    ):
        cards_at.pages[JWKS] = {"keys": [key]}
        with pytest.raises(BadCard, match=WRONG):
            registration.register_remote("one", url=url)


def base64url(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_what_is_no_signature_by_an_algorithm_of_the_list_verifies_nothing(cards_at, publish):
    url = publish()
    secret = OctKey.import_key(json.dumps(public(KEYS["ES256"])))  # the well-known algorithm confusion attack
    for number, signatures in enumerate(
        (
            signed(cards_at.card(), secret, "HS256", jku=cards_at.url + JWKS)["signatures"],
            [{"protected": base64url({"alg": "none", "kid": "one"}), "signature": ""}],
            [{"protected": base64url({"kid": "one"}), "signature": "YQ"}],
            [{"protected": base64url({"alg": ["ES256"]}), "signature": "YQ"}],
            [{"protected": "!", "signature": "YQ"}],
            [{"protected": base64url([]), "signature": "YQ"}],
            [{}],
            [7],
            "text",
            {"protected": 1},
        )
    ):
        cards_at.pages[WELL_KNOWN] = cards_at.card(signatures=signatures)
        shown = registration.register_remote(f"one-{number}", url=url).remote
        assert shown.signature == "unverified", signatures


def test_an_extension_of_jws_that_must_be_understood_and_is_not_verifies_nothing(cards_at, publish):
    url = publish()
    header = {"alg": "ES256", "kid": "one", "jku": cards_at.url + JWKS, "crit": ["magic"], "magic": 1}
    [signature] = cards_at.pages[WELL_KNOWN]["signatures"]
    signature["protected"] = base64url(header)
    with pytest.raises(BadCard, match=WRONG):
        registration.register_remote("one", url=url)


def test_one_good_signature_among_several_is_enough(cards_at, publish):
    url = publish()
    cards_at.pages[WELL_KNOWN]["signatures"].insert(0, {"protected": "!", "signature": "!"})
    assert registration.register_remote("one", url=url).remote.signature == "verified"


def test_a_pasted_card_is_believed_by_the_keys_of_where_the_agent_is(cards_at, publish):
    publish()
    text = json.dumps(cards_at.pages[WELL_KNOWN])
    assert registration.register_remote("one", card=text).remote.signature == "verified"
    elsewhere = signed(card("https://agents.example/a2a"), KEYS["ES256"], jku=cards_at.url + JWKS)
    assert registration.register_remote("two", card=json.dumps(elsewhere)).remote.signature == "unverified"


class TestAPinnedKey:
    @pytest.fixture
    def pinned(self, publish):
        return registration.register_remote("one", url=publish())

    def test_needs_no_look_up_any_more(self, cards_at, publish, pinned):
        publish(told=cards_at.card(description="Other."))
        cards_at.pages[JWKS] = (503, {}, b"")
        assert registration.refresh_card(pinned).outcome == "updated"
        agent = Agent.objects.get()
        assert (agent.description, agent.remote.signature) == ("Other.", "verified")

    @pytest.mark.parametrize("kid", ["one", "two"])
    def test_that_another_key_follows_waits_and_the_other_is_pinned_once_approved(self, publish, pinned, ada, kid):
        publish(KEYS["ES384"], "ES384", kid=kid)
        assert registration.refresh_card(pinned).outcome == "waiting"
        agent = Agent.objects.get()
        assert agent.remote.pinned_keys == [public(KEYS["ES256"])]
        assert agent.remote.proposed.note == "Needs approval: another signing key."
        registration.approve_card(agent, ada)
        agent = Agent.objects.get()
        assert agent.remote.pinned_keys == [public(KEYS["ES384"], kid)]
        assert registration.refresh_card(agent).outcome == "unchanged"

    def test_that_is_suddenly_missing_waits(self, cards_at, pinned):
        cards_at.pages[WELL_KNOWN] = cards_at.card()
        assert registration.refresh_card(pinned).outcome == "waiting"
        assert Agent.objects.get().remote.signature == "verified"

    def test_that_did_not_sign_this_fails(self, cards_at, pinned):
        cards_at.pages[WELL_KNOWN] |= {"description": "Forged."}
        told = registration.refresh_card(pinned)
        assert (told.outcome, WRONG in told.reason) == ("failed", True)
        agent = Agent.objects.get()
        assert (agent.description, agent.remote.card_error) == ("Translates texts.", told.reason)


def test_an_unsigned_card_that_is_signed_later_is_taken_and_its_key_pinned(cards_at, publish):
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    agent = registration.register_remote("one", url=cards_at.url)
    assert agent.remote.signature == "unsigned"
    publish()
    assert registration.refresh_card(agent).outcome == "updated"
    assert Agent.objects.get().remote.pinned_keys == [public(KEYS["ES256"])]


def unsigned_token(told, **header):
    protected = base64.urlsafe_b64encode(json.dumps({"kid": "one", **header}).encode()).rstrip(b"=").decode()
    return {**told, "signatures": [{"protected": protected, "signature": ""}]}


FORGERIES = {
    "no algorithm": lambda told, jku: unsigned_token(told, alg="none", jku=jku),
    "a shared secret": lambda told, jku: signed(told, OctKey.generate_key(256), "HS256", jku=jku),
    "an unknown key": lambda told, jku: signed(told, ECKey.generate_key("P-256"), kid="other", jku=jku),
    "keys on another server": lambda told, jku: signed(
        told, KEYS["ES384"], "ES384", kid="a", jku="https://k.example/j"
    ),
}


@pytest.fixture(params=FORGERIES)
def forge(request, cards_at):
    def serve(**changes):
        cards_at.pages[JWKS] = {"keys": [public(KEYS["ES256"])]}
        cards_at.pages[WELL_KNOWN] = FORGERIES[request.param](cards_at.card(**changes), cards_at.url + JWKS)
        return cards_at.url

    return serve


def test_a_signature_that_proves_nothing_makes_an_agent_not_trusted_wherever_it_is_shown(forge, client, ada):
    agent = registration.register_remote("one", url=forge(), access="authenticated")
    assert (agent.remote.signature, agent.remote.pinned_keys) == ("unverified", [])
    ada.is_staff = ada.is_superuser = True
    ada.save()
    client.force_login(ada)
    assert re.search(r'role="alert">\s*<strong>Not trusted\.', client.get("/agents/one").text)
    for address in (f"/admin/remote/remoteagent/{agent.remote.pk}/change/", "/admin/remote/remoteagent/"):
        assert "not trusted" in client.get(address).text


@override_settings(REQUIRE_TRUSTED_CARDS=True)
def test_where_trust_is_required_no_other_card_is_registered(forge, cards_at, publish):
    url = forge()
    with pytest.raises(BadCard, match="verified signature"):
        registration.register_remote("one", url=url)
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    with pytest.raises(BadCard, match="unsigned"):
        registration.register_remote("one", url=url)
    assert not Agent.objects.exists()
    assert registration.register_remote("one", url=publish()).remote.signature == "verified"


def test_where_trust_is_required_no_other_card_is_taken_at_a_refresh(forge, cards_at, publish, settings):
    agent = registration.register_remote("one", url=publish())
    unsigned = registration.register_remote("two", card=json.dumps(cards_at.card()))
    settings.REQUIRE_TRUSTED_CARDS = True
    forge(description="Forged.")
    told = registration.refresh_card(agent)
    assert (told.outcome, "verified signature" in told.reason) == ("failed", True)
    assert Agent.objects.get(slug="one").description == "Translates texts."
    unsigned.remote.card_url = cards_at.url
    unsigned.remote.etag = '"same"'
    unsigned.remote.save()
    cards_at.pages[WELL_KNOWN] = (304, {}, b"")
    assert registration.refresh_card(unsigned).outcome == "failed", "also one that was registered before"
