"""A key with a public key is accepted only in requests that its private key signed (RFC 9421)."""

import datetime
import io
import json
import uuid
from dataclasses import dataclass, field
from urllib.parse import unquote

import http_sf
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from django.core.handlers.asgi import ASGIRequest
from django.test import Client, RequestFactory
from django.utils import timezone
from http_message_signatures import HTTPMessageSigner, MappingKeyResolver
from http_message_signatures.algorithms import ECDSA_P256_SHA256, ED25519, HMAC_SHA256
from joserfc.jwk import ECKey, OKPKey
from rest_framework.request import Request

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.keys import KeyRefused, make_key, rotate_key
from apps.accounts.models import UsedNonce
from apps.accounts.principals import KEYS, READ, WRITE
from apps.accounts.requests.authentication import (
    ApiKeyAuthentication,
    BadCredentials,
    NotSigned,
    OpenStream,
    api_key_principal,
)
from apps.accounts.secrets import request_signatures
from apps.conversations.uploads.models import Upload
from tests.clients.calling import Caller

pytestmark = pytest.mark.django_db(transaction=True)  # a thread writes a key's last use

BASE = "http://127.0.0.1:8000"
COVERED = ("@method", "@target-uri", "authorization")
PRIVATE = ed25519.Ed25519PrivateKey.generate()
BODY = b'{"title":"A"}'


def pem(private):
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return private.public_key().public_bytes(*form).decode()


@dataclass
class Asked:
    """A request as a program signs it, with the library and without our code."""

    key: str
    method: str = "POST"
    path: str = "/api/v1/sessions?limit=1"
    body: bytes = BODY
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.headers["Authorization"] = f"Bearer {self.key}"

    @property
    def url(self):
        return BASE + self.path

    def sign(self, private=PRIVATE, algorithm=ED25519, covered=COVERED, nonce=None, age=0, **more):
        resolver = MappingKeyResolver(public_keys={}, private_keys={"mine": private})
        signer = HTTPMessageSigner(signature_algorithm=algorithm, key_resolver=resolver)
        created = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age)
        given = {"nonce": nonce or str(uuid.uuid4()), "body": self.body or None, **more}
        signer.sign(self, key_id="mine", created=created, covered_component_ids=covered, **given)
        return self

    def sent(self):
        content = {"data": self.body, "content_type": "application/json"} if self.method != "GET" else {}
        return getattr(RequestFactory(headers=self.headers), self.method.lower())(self.path, **content)


def caller(asked):
    return api_key_principal(asked.headers["Authorization"], asked.sent())


@pytest.fixture
def key(ada):
    return make_key(ada.principal, ada, "signed", [READ, WRITE, KEYS], public_key=pem(PRIVATE))[1]


def test_signed_requests_are_accepted(ada, key):
    assert caller(Asked(key).sign()).user_id == ada.pk
    assert caller(Asked(key, "GET", body=b"").sign()).user_id == ada.pk
    private = ec.generate_private_key(ec.SECP256R1())
    other = make_key(ada.principal, ada, "p256", [READ], public_key=pem(private))[1]
    assert caller(Asked(other).sign(private, ECDSA_P256_SHA256)).user_id == ada.pk


@pytest.mark.parametrize("path", ["/files/a=b;c.txt", "/files/%7Eada/%5Ba%5D.txt", "/files/a%2Fb?q=%7e"])
def test_signed_address_is_as_the_client_wrote_it(ada, key, path):
    asked = Asked(key, "GET", path, b"").sign()
    raw, _, query = path.encode().partition(b"?")
    scope = {"type": "http", "method": "GET", "path": unquote(raw.decode()), "raw_path": raw, "query_string": query}
    headers = [(name.lower().encode(), value.encode()) for name, value in asked.headers.items()]
    served = ASGIRequest({**scope, "headers": headers}, io.BytesIO())
    assert api_key_principal(asked.headers["Authorization"], served).user_id == ada.pk


def changed(**values):
    def change(asked):
        for name, value in values.items():
            setattr(asked, name, value)
        return asked

    return change


def with_header(name, value):
    def change(asked):
        asked.headers[name] = value
        return asked

    return change


WRONG = {
    "no signature": lambda key: Asked(key),
    "another body": lambda key: changed(body=b"{}")(Asked(key).sign()),
    "another method": lambda key: changed(method="PUT")(Asked(key).sign()),
    "another path": lambda key: changed(path="/api/v1/tasks")(Asked(key).sign()),
    "another query": lambda key: changed(path="/api/v1/sessions?limit=2")(Asked(key).sign()),
    "another key": lambda key: Asked(key).sign(ed25519.Ed25519PrivateKey.generate()),
    "the public key as a secret": lambda key: Asked(key).sign(pem(PRIVATE).encode(), HMAC_SHA256),
    "an old one": lambda key: Asked(key).sign(age=310),
    "one of the future": lambda key: Asked(key).sign(age=-120),
    "one that covers no address": lambda key: Asked(key).sign(covered=("@method", "authorization")),
    "one that covers no key": lambda key: Asked(key).sign(covered=("@method", "@target-uri")),
    "one that covers no body": lambda key: changed(body=BODY)(Asked(key, body=b"").sign()),
    "a header that chooses another workspace": lambda key: with_header("X-Parley-Workspace", "1")(Asked(key).sign()),
    "no nonce": lambda key: unsaid(Asked(key)),
    "two signatures": lambda key: (
        Asked(key).sign(label="a").sign(label="b", append_if_signature_exists=True, use_existing_digest=True)
    ),
    "no dictionary": lambda key: with_header("Signature-Input", "%%%")(Asked(key).sign()),
    "no list of what it covers": lambda key: with_header("Signature-Input", "pyhms=1")(Asked(key).sign()),
    "no bytes": lambda key: with_header("Signature", "pyhms=1")(Asked(key).sign()),
    "a wrong digest": lambda key: with_header("Content-Digest", "sha-256=:AAAA:")(Asked(key).sign()),
}


def unsaid(asked):
    asked.sign()
    asked.headers.pop("Signature")
    asked.headers.pop("Signature-Input")
    resolver = MappingKeyResolver(public_keys={}, private_keys={"mine": PRIVATE})
    signer = HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=resolver)
    signer.sign(asked, key_id="mine", covered_component_ids=COVERED, body=asked.body, use_existing_digest=True)
    return asked


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_any_other_request_is_refused(key, wrong):
    with pytest.raises(NotSigned):
        caller(wrong(key))


def test_signature_works_once_for_its_key_alone(ada, key):
    asked = Asked(key).sign(nonce="once")
    assert caller(asked).is_known
    with pytest.raises(NotSigned):
        caller(asked)
    other = make_key(ada.principal, ada, "other", [READ], public_key=pem(PRIVATE))[1]
    assert caller(Asked(other).sign(nonce="once")).is_known


def test_nonce_is_kept_as_long_as_its_signature(key, monkeypatch):
    monkeypatch.setattr(request_signatures, "SWEEP", 1)
    asked = Asked(key).sign()
    assert caller(asked).is_known
    assert caller(Asked(key).sign()).is_known
    with pytest.raises(NotSigned):
        caller(asked)
    ended = timezone.now() - datetime.timedelta(seconds=1)
    UsedNonce.objects.update(expires_at=ended)
    assert caller(Asked(key).sign()).is_known
    assert UsedNonce.objects.filter(expires_at=ended).count() == 0


def test_wrong_secret_is_refused_before_the_signature(key):
    with pytest.raises(BadCredentials) as refused:
        caller(Asked(f"{key[:-1]}{'a' if key[-1] != 'a' else 'b'}").sign())
    assert not isinstance(refused.value, NotSigned)


def test_only_open_streams_need_no_signature_again(ada, key):
    with pytest.raises(NotSigned):
        api_key_principal(f"Bearer {key}")
    again = OpenStream()
    again.META = {"HTTP_AUTHORIZATION": f"Bearer {key}"}
    assert ApiKeyAuthentication().authenticate(Request(again))[0] == ada


def test_rotation_keeps_the_public_key(ada, key):
    _, text = rotate_key(ada.principal, ada.api_keys.get().pk)
    assert caller(Asked(text).sign()).is_known
    with pytest.raises(NotSigned):
        caller(Asked(text))


def test_signed_key_changes_only_signed_keys(ada, key):
    maker = caller(Asked(key).sign())
    with pytest.raises(KeyRefused):
        make_key(maker, ada, "wider", [READ])
    assert make_key(maker, ada, "made", [READ], public_key=pem(PRIVATE))[0].public_key == pem(PRIVATE)
    plain = make_key(ada.principal, ada, "plain", [READ])[0]
    with pytest.raises(KeyRefused):
        rotate_key(maker, plain.pk)


@pytest.mark.parametrize(("kind", "private"), [(OKPKey, PRIVATE), (ECKey, ec.generate_private_key(ec.SECP256R1()))])
def test_a_jwk_is_the_same_key(kind, private):
    jwk = json.dumps(kind.import_key(pem(private)).as_dict())
    assert request_signatures.read_public_key(jwk) == pem(private)


REFUSED_KEYS = {
    "no key": "hello",
    "a private key": PRIVATE.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode(),
    "RSA": pem(rsa.generate_private_key(65537, 2048)),
    "a private JWK": json.dumps(OKPKey.generate_key("Ed25519").as_dict(private=True)),
    "a secret": '{"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQ"}',
    "half a JWK": '{"kty": "OKP", "crv": "Ed25519"}',
    "another curve": pem(ec.generate_private_key(ec.SECP384R1())),
}


@pytest.mark.parametrize("wrong", REFUSED_KEYS.values(), ids=REFUSED_KEYS)
def test_only_public_keys_of_two_kinds_are_taken(wrong):
    with pytest.raises(ValueError, match=r"^(Give|This)"):
        request_signatures.read_public_key(wrong)


DOORS = {
    "A2A": ("POST", "/a2a/echo", {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}),
    "the client API": ("GET", "/api/v1/tasks", None),
    "a private card": ("GET", "/a2a/echo/.well-known/agent-card.json", None),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_each_door_asks_for_the_signature(door, ada, key, echo):
    method, path, body = door
    echo.access, echo.workspace_id = echo.Access.WORKSPACE, ada.principal.workspace_id
    echo.save()
    content = json.dumps(body).encode() if body else b""

    def answer(asked):
        more = {"data": content, "content_type": "application/json"} if body else {}
        headers = {**asked.headers, "A2A-Version": "1.0"}
        return getattr(Client(), method.lower())(path, headers=headers, **more)

    refused = answer(Asked(key, method, path, content))
    assert refused.status_code == 401
    assert "RFC 9421" in refused.content.decode()
    [noted] = AuditEntry.objects.filter(action=AuditAction.KEY_REFUSED)
    assert noted.details == {"reason": "not signed"}
    assert 'error="invalid_token"' in refused["WWW-Authenticate"]
    covered, nonce = as_asked(refused["Accept-Signature"])
    assert ("content-digest" in covered) == bool(body)
    with_digest = Asked(key, method, path, content)
    assert answer(with_digest.sign(covered=covered, nonce=nonce)).status_code == 200


def as_asked(header):
    """What `Accept-Signature` wants covered, and its nonce."""
    [(covered, wanted)] = http_sf.parse(header.encode(), tltype="dictionary").values()
    assert wanted["created"] is True
    return tuple(name for name, _ in covered), wanted["nonce"]


async def test_an_uploaded_file_is_covered_too(key, settings, tmp_path):
    settings.UPLOADS_DIR = tmp_path
    path = "/uploads?filename=a.txt"
    signed = Asked(key, "POST", f"/api/v1{path}", b"mine").sign()
    uncovered = Asked(key, "POST", f"/api/v1{path}", b"").sign()
    for content, asked in ((b"else", signed), (b"mine", uncovered), (b"mine", Asked(key))):
        assert (await Caller(key).ask("POST", path, content, with_type(asked))).status == 401
    assert not await Upload.objects.aexists()
    taken = await Caller(key).ask(
        "POST", path, b"mine", with_type(Asked(key, "POST", f"/api/v1{path}", b"mine").sign())
    )
    assert (taken.status, taken.body["offset"], taken.body["isWhole"]) == (201, 4, True)


def with_type(asked):
    return {**asked.headers, "Content-Type": "text/plain"}
