"""Signatures use listed algorithms, and a changed byte breaks them."""

import base64
import json

import pytest
from django.utils import timezone
from joserfc import jws
from joserfc.jwk import OctKey, RSAKey

from apps.agents.identities import signing
from apps.agents.identities.signing import BadSignature, Signer

PAYLOAD = b'{"a":1}'


@pytest.fixture(params=signing.ALGORITHMS)
def private(request):
    return {**signing.generate_key(request.param), "alg": request.param}


def signer(private):
    key = {name: value for name, value in private.items() if name != "alg"}
    return Signer.of(key, private["alg"], timezone.now())


def check(signature, payload, private, algorithm=""):
    public = signing.public_jwk({name: value for name, value in private.items() if name != "alg"})
    signing.verify(signature, payload, public, algorithm or private["alg"])


def encoded(value):
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def test_what_was_signed_is_good(private):
    signature = signer(private).sign(PAYLOAD, jku="https://example.org/jwks.json")
    check(signature, PAYLOAD, private)
    known = {"alg": private["alg"], "kid": signer(private).kid, "typ": "JOSE"}
    assert signing.unverified_header(signature) == {**known, "jku": "https://example.org/jwks.json"}
    assert signature.split(".")[1] == ""
    assert private["d"] not in repr(signer(private))


def test_thumbprint_and_signature_are_those_of_rfc_8037():
    """Appendix A.3 and A.4, with their payload, key and header."""
    public = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    assert signing.thumbprint(public) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    signing.verify(f"eyJhbGciOiJFZERTQSJ9..{signature}", b"Example of Ed25519 signing", public, "EdDSA")


def test_no_character_of_a_signature_may_change(private):
    signature = signer(private).sign(PAYLOAD)
    for at, old in enumerate(signature):
        for new in ("A", "B", "g", "_", ".", "=", "é"):
            if new != old:
                with pytest.raises(BadSignature):
                    check(signature[:at] + new + signature[at + 1 :], PAYLOAD, private)


def test_no_byte_of_the_payload_may_change(private):
    signature = signer(private).sign(PAYLOAD)
    for other in (b"", PAYLOAD + b" ", PAYLOAD[:-1], PAYLOAD.replace(b"1", b"2")):
        with pytest.raises(BadSignature):
            check(signature, other, private)
    protected, _, signature = signer(private).sign(PAYLOAD).split(".")
    with pytest.raises(BadSignature, match="detached"):
        check(f"{protected}.{encoded(PAYLOAD)}.{signature}", PAYLOAD, private)


def test_another_key_or_algorithm_verifies_nothing(private):
    signature = signer(private).sign(PAYLOAD)
    with pytest.raises(BadSignature):
        check(signature, PAYLOAD, {**signing.generate_key(private["alg"]), "alg": private["alg"]})
    other = next(name for name in signing.ALGORITHMS if name != private["alg"])
    with pytest.raises(BadSignature, match="another algorithm"):
        check(signature, PAYLOAD, private, other)


def test_no_algorithm_beyond_the_list_is_accepted(private):
    unsigned = f"{encoded({'alg': 'none'})}.."
    symmetric = jws.serialize_compact({"alg": "HS256"}, PAYLOAD, OctKey.generate_key(256), algorithms=["HS256"])
    rsa = jws.serialize_compact({"alg": "RS256"}, PAYLOAD, RSAKey.generate_key(2048), algorithms=["RS256"])
    for signature in (unsigned, jws.detach_content(symmetric), jws.detach_content(rsa)):
        named = signing.unverified_header(signature)["alg"]
        for algorithm in ("", named):
            with pytest.raises(BadSignature):
                check(signature, PAYLOAD, private, algorithm)
    weak = Signer("kid", "HS256", timezone.now(), OctKey.generate_key(256))
    with pytest.raises(Exception, match="HS256 is not among EdDSA, ES256"):
        weak.sign(PAYLOAD)


def test_no_signature_at_all_is_bad(private):
    heads = [encoded([]), encoded(b"{"), encoded({}), encoded(b"[" * 100_000)]
    for signature in ["", ".", "..", "a..b", "a.b.c", "a..b.c", "é..é", "x" * 9, *(f"{one}..x" for one in heads)]:
        with pytest.raises(BadSignature):
            check(signature, PAYLOAD, private)
