"""Pairing: both sides prove who they are, a code works once, and a new key needs the old one's word."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import pytest
from django.test import RequestFactory
from django.utils import timezone

from apps.a2a import authentication
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import User
from apps.accounts.requests.authentication import BadCredentials, OpenStream
from apps.agents.identities import identity, signing
from apps.agents.identities.signing import Signer
from apps.agents.models import AgentNotFound
from apps.engine import accept
from apps.optional.federation import pairing, sync
from apps.optional.federation.pairing import Code, PairingRefused, proof_of
from apps.record.models import Task
from apps.remote.federation import tokens
from apps.remote.identity.did_web import Unresolved, read_document
from apps.remote.models import Peer, PeerUser, SharedAgent
from parley import db
from tests.clients import telling
from tests.remote.card_server import CardServer

ASKED = RequestFactory().get("/a2a/echo", REMOTE_ADDR="203.0.113.1")

pytestmark = pytest.mark.django_db(transaction=True)

JSON = dict[str, Any]


class Other:
    """Another installation: an identity with a key, at an address."""

    def __init__(self, server: CardServer) -> None:
        self.server, self.url = server, server.url
        self.did = f"did:web:127.0.0.1%3A{server.server_address[1]}"
        self.private = signing.generate_key("EdDSA")
        self.signer = Signer.of(self.private, "EdDSA", timezone.now())
        self.methods = [self.method(self.private)]
        self.publish()

    def method(self, private: JSON, **more: Any) -> JSON:
        key = signing.public_jwk(private)
        return {"id": f"{self.did}#{signing.thumbprint(key)}", "controller": self.did, "publicKeyJwk": key, **more}

    def publish(self) -> None:
        self.server.pages["/.well-known/did.json"] = self.document

    @property
    def document(self) -> JSON:
        return {"id": self.did, "verificationMethod": self.methods, "assertionMethod": [m["id"] for m in self.methods]}

    def token(self, kind: str = tokens.CALL, signer: Signer | None = None, **claims: Any) -> str:
        now = int(time.time())
        own = {"iss": self.did, "aud": identity.did_of(None), "iat": now, "exp": now + 100, "jti": secrets.token_hex(8)}
        return (signer or self.signer).token({**own, **claims}, kind)

    def pairing(self, code: Code, **claims: Any) -> JSON:
        token = self.token(tokens.PAIR, **{"url": self.url, "name": "Other", "nonce": "n", **claims})
        return {"code": code.number, "token": token, "proof": proof_of(code.secret, token)}

    def paired(self) -> Peer:
        keys = [{**one["publicKeyJwk"], "kid": one["id"].partition("#")[2]} for one in self.methods]
        return pairing._pair(self.did, self.url, "Other", keys, None)


@pytest.fixture
def other(cards_at, settings):
    settings.PUBLIC_BASE_URL = "http://127.0.0.1:8000"
    return Other(cards_at)


async def test_one_code_pairs_and_both_prove_their_key(other, async_client):
    _, text = await db.run(pairing.make_code, None)
    code = Code.read(text)
    body = json.dumps(other.pairing(code))
    answer = await async_client.post("/federation/pair", body, "application/json")
    assert answer.status_code == 200, answer.content
    proof = answer.json()["token"]
    read = tokens.PeerToken(proof, "", code.kid, signing.unverified_token(proof)[1])
    methods = (await db.run(identity.did_document, None))["verificationMethod"]
    [own] = [one["publicKeyJwk"] for one in methods if one["publicKeyJwk"]["kid"] == code.kid]
    read.verify(own)
    assert (read.claims["nonce"], read.claims["aud"]) == ("n", other.did)
    peer = await db.run(Peer.objects.get)
    assert (peer.state, peer.did, [key["kid"] for key in peer.keys]) == ("paired", other.did, [other.signer.kid])
    assert (await async_client.post("/federation/pair", body, "application/json")).status_code == 400
    actions = await db.run(lambda: set(AuditEntry.objects.values_list("action", flat=True)))
    assert {"peer.invited", "peer.paired"} <= actions


@pytest.mark.parametrize(
    "wrong", ["secret", "expired", "another key", "another address", "another audience", "no such"]
)
async def test_wrong_requests_pair_nobody(other, wrong):
    made, text = await db.run(pairing.make_code, None)
    code, body = Code.read(text), other.pairing(Code.read(text))
    match wrong:
        case "secret":
            body["proof"] = proof_of("guessed", body["token"])
        case "expired":
            await db.run(Peer.objects.filter(pk=made.pk).update, code_until=timezone.now())
        case "another key":
            stranger = signing.generate_key("EdDSA")
            other.signer = Signer.of(stranger, "EdDSA", timezone.now())
            body = other.pairing(code)
        case "another address":
            body = other.pairing(code, url="http://127.0.0.1:1")
        case "another audience":
            body = other.pairing(code, aud="did:web:somebody.else")
        case "no such":
            body["code"] = made.pk + 1
    with pytest.raises(PairingRefused):
        await pairing.answer_pairing(body)
    assert not await db.run(Peer.objects.paired().exists)


def test_each_person_there_is_one_user_here(other, echo, ada, django_assert_num_queries):
    peer = other.paired()
    SharedAgent.objects.create(agent=echo)

    def caller(subject: str, slug: str = "echo", **claims: Any) -> Any:
        header = f"Bearer {other.token(sub=subject, **claims)}"
        return authentication.authenticate(header, slug, ASKED)

    one, agent = caller("one", name="Grace")
    assert agent == echo
    with django_assert_num_queries(1):
        assert caller("one", name="Grace")[0] == one
    two, _ = caller("two")
    assert (one.workspace_id, two.workspace_id) == (peer.workspace_id, peer.workspace_id)
    assert one.user_id != two.user_id
    assert not one.may_use("countdown")
    task = accept.accept(one, echo, telling.said("Begin")).task
    assert Task.objects.visible_to(one).filter(pk=task).exists()
    for somebody in (two, ada.principal):
        assert not Task.objects.visible_to(somebody).filter(pk=task).exists()
    assert not User.objects.get(pk=one.user_id).has_usable_password()
    SharedAgent.objects.all().delete()
    with pytest.raises(AgentNotFound):
        caller("one")


def test_no_other_token_is_let_in(other, echo):
    peer = other.paired()
    SharedAgent.objects.create(agent=echo)
    now = int(time.time())
    stranger = Signer.of(signing.generate_key("EdDSA"), "EdDSA", timezone.now())
    good = other.token(sub="one")
    head, claims, signature = good.split(".")
    _, others_claims, _ = other.token(sub="two").split(".")
    for wrong in (
        other.token(sub="one", aud="did:web:somebody.else"),
        other.token(sub="one", iat=now - 200, exp=now - 100),
        other.token(sub="one", exp=now + 10_000),
        other.token(sub="one", exp="soon"),
        other.token(sub="one", iss="did:web:somebody.else"),
        other.token(sub="a person"),
        other.token(),
        other.token(tokens.SYNC, sub="one"),
        other.token(sub="one", signer=stranger),
        f"{head}.{others_claims}.{signature}",
        f"{head}.{claims}.",
    ):
        with pytest.raises(BadCredentials):
            authentication.authenticate(f"Bearer {wrong}", "echo", ASKED)
    assert authentication.authenticate(f"Bearer {good}", "echo", ASKED)[1] == echo
    assert PeerUser.objects.count() == 1
    old = other.token(sub="one", iat=now - 200, exp=now - 100)
    assert authentication.authenticate(f"Bearer {old}", "echo", OpenStream())[1] == echo  # its stream goes on
    pairing.end(peer, Peer.State.REVOKED, pairing.AuditAction.PEER_REVOKED)
    for request in (ASKED, OpenStream()):
        with pytest.raises(BadCredentials):
            authentication.authenticate(f"Bearer {good}", "echo", request)
    other.paired()
    assert authentication.authenticate(f"Bearer {good}", "echo", OpenStream())[1] == echo
    assert PeerUser.objects.count() == 1


def test_new_keys_need_a_pinned_keys_signature(other):
    peer = other.paired()
    new, stranger = signing.generate_key("EdDSA"), signing.generate_key("EdDSA")
    kid = signing.thumbprint(new)
    by_old = other.signer.sign(signing.endorsed(kid))
    by_stranger = Signer.of(stranger, "EdDSA", timezone.now()).sign(signing.endorsed(kid))
    for endorsement in ({}, {"endorsement": by_stranger}, {"endorsement": "x"}):
        other.methods = [other.method(other.private), other.method(new, **endorsement)]
        sync.follow_keys(peer, read_document(other.did, other.document))
        assert [key["kid"] for key in Peer.objects.get().keys] == [other.signer.kid]
    other.methods[1] = other.method(new, endorsement=by_old)
    sync.follow_keys(peer, read_document(other.did, other.document))
    assert [key["kid"] for key in Peer.objects.get().keys] == [other.signer.kid, kid]
    other.methods = other.methods[1:]  # the old key is revoked
    sync.follow_keys(peer, read_document(other.did, other.document))
    assert [key["kid"] for key in Peer.objects.get().keys] == [kid]
    other.methods = [other.method(stranger)]
    with pytest.raises(Unresolved):
        sync.follow_keys(peer, read_document(other.did, other.document))
    old = signing.signer_of(None)
    key = signing.rotate_key(None)
    method = next(one for one in identity.did_document(None)["verificationMethod"] if one["id"].endswith(key.kid))
    signing.verify_foreign(method["endorsement"], signing.endorsed(key.kid), old.key.as_dict(private=False))


async def test_peers_list_shared_agents_and_end_pairings(other, echo, countdown, async_client):
    await db.run(other.paired)
    await db.run(lambda: SharedAgent.objects.create(agent=echo))
    headers = {"Authorization": f"Bearer {other.token(tokens.SYNC)}"}
    shared = (await async_client.get("/federation/agents", headers=headers)).json()["agents"]
    assert [(one["slug"], one["health"]) for one in shared] == [("echo", "ok")]
    assert (await async_client.get("/federation/agents")).status_code == 401
    wrong = {"Authorization": f"Bearer {other.token(tokens.CALL)}"}
    assert (await async_client.post("/federation/end", headers=wrong)).status_code == 401
    end = {"Authorization": f"Bearer {other.token(tokens.END)}"}
    assert (await async_client.post("/federation/end", headers=end)).status_code == 200
    assert (await db.run(Peer.objects.get)).state == "ended"
    assert (await async_client.get("/federation/agents", headers=headers)).status_code == 401


def test_revoked_unused_code_is_in_the_audit(ada):
    unused = Peer.objects.create(name="Far", state=Peer.State.INVITED)
    pairing.revoke(unused, ada)
    assert not Peer.objects.exists()
    assert AuditEntry.objects.get(action="peer.revoked").object_key == str(unused.pk)
