"""A remote agent's own signature on an artifact is verified beside the record, and pages and the API say so."""

from __future__ import annotations

import base64
import datetime
import hashlib
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from agentkit import Artifact as Made
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import User
from apps.agents.identities import signing
from apps.agents.identities.signing import Signer
from apps.conversations.provenance.traversal import provenance_of
from apps.conversations.public_links.transcripts import markdown_of
from apps.optional.signing import remote as artifact_verification
from apps.optional.signing.models import ForeignSignature, Verdict, Vouch
from apps.optional.signing.remote import EXTENSION
from apps.optional.signing.signatures import erase_foreign, examine
from apps.record.content.strict_json import canonical
from apps.record.models import Artifact
from apps.remote.execution import cancellation
from apps.remote.identity.did_web import CACHE_SECONDS, DidResolver, Unresolved, document_url, read_document, resolver
from apps.remote.models import RemoteAgent
from parley import db
from tests.clients import telling
from tests.clients.delivering import delivered
from tests.remote.card_server import CardServer
from tests.remote.registered import remote_agent
from tests.work.hand import work_off

pytestmark = pytest.mark.django_db(transaction=True)

JSON = dict[str, Any]
LARGE = base64.b64encode(b"x" * 100_000).decode()


class Elsewhere:
    """A remote agent that signs, and the record of what it delivered."""

    def __init__(self, server: CardServer, user: User) -> None:
        self.server = server
        self.agent = remote_agent("signer", f"{server.url}/a2a/report")
        self.did = f"did:web:127.0.0.1%3A{server.server_address[1]}:a2a:report"
        self.private = signing.generate_key("EdDSA")
        self.signer = Signer.of(self.private, "EdDSA", timezone.now())
        parts: list[JSON] = [{"text": "hello"}, {"raw": LARGE, "mediaType": "application/octet-stream"}]
        self.receipt = delivered(
            user, self.agent, telling.said("Begin"), [Made(parts, name="words", artifact_id="one")]
        )
        self.row = Artifact.objects.select_related("task__context").get(task=self.receipt.task)
        self.parts = parts
        self.publish(signing.public_jwk(self.private))

    def publish(self, *keys: JSON) -> None:
        methods = [
            {"id": f"{self.did}#{signing.thumbprint(key)}", "controller": self.did, "publicKeyJwk": key} for key in keys
        ]
        self.server.pages["/a2a/report/did.json"] = {
            "id": self.did, "verificationMethod": methods, "assertionMethod": [one["id"] for one in methods],
        }  # fmt: skip

    def told(self, *, did: str = "", task: str = "remote-1", parts: list[JSON] | None = None) -> JSON:
        """The completed task as the agent tells it, with its signature by docs/extensions/signature-v1.md."""
        did = did or self.did
        claims = {"agent": did, "created": "2026-01-02T03:04:05Z", "inputSnapshot": "00"}
        digest = hashlib.sha256(base64.b64decode(LARGE)).hexdigest()
        statement = {
            **claims, "artifactId": "one", "name": "words", "taskId": task, "contextId": "remote-context",
            "parts": [{"text": "hello"}, {"sha256": digest, "mediaType": "application/octet-stream"}],
        }  # fmt: skip
        signature = {**claims, "signature": self.signer.sign(canonical(statement))}
        artifact = {
            "artifactId": "one", "name": "words", "parts": parts or self.parts,
            "metadata": {f"{self.server.url}{EXTENSION}": signature},
        }  # fmt: skip
        return {"id": "remote-1", "contextId": "remote-context", "status": {}, "artifacts": [artifact]}

    async def complete(self, told: JSON) -> ForeignSignature:
        """As the executor does when the task has completed."""
        run = SimpleNamespace(assignment=SimpleNamespace(task=self.row.task, agent=self.agent))
        await artifact_verification.note_signatures(run, told, lambda key: key)  # type: ignore[arg-type]
        for one in list(cancellation._background_tasks):
            await one
        return await db.run(ForeignSignature.objects.get)


@pytest.fixture
def elsewhere(cards_at, ada):
    resolver.forget()
    yield Elsewhere(cards_at, ada)
    resolver.forget()


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ({}, Verdict.GOOD),
        ({"parts": [{"text": "hallo"}]}, Verdict.BROKEN),
        ({"parts": [{"stored": {"sha256": "0" * 64}}]}, Verdict.BROKEN),
        ({"task": "another"}, Verdict.BROKEN),
        ({"did": "did:web:127.0.0.1%3A1:a2a:report"}, Verdict.UNKNOWN_KEY),
        ({"did": "no identity"}, Verdict.UNKNOWN_KEY),
    ],
)
async def test_signatures_cover_what_was_delivered(elsewhere, told, verdict):
    before = await db.run(lambda: Artifact.objects.values().get())
    found = await elsewhere.complete(elsewhere.told(**told))
    assert found.verdict == verdict
    if verdict == Verdict.GOOD:
        assert (found.vouched_by, found.signer) == (Vouch.DID, elsewhere.did)
        assert (found.key["kid"], found.statement) == (elsewhere.signer.kid, "")
    assert await db.run(lambda: Artifact.objects.values().get()) == before
    wrong = await db.run(lambda: AuditEntry.objects.filter(action="signature.wrong").count())
    assert wrong == (verdict == Verdict.BROKEN)


@pytest.mark.parametrize("vouch", [Vouch.CARD, Vouch.KEY_SET, "document without the key", None])
async def test_pinned_keys_vouch_only_without_a_document(elsewhere, vouch):
    key = {**signing.public_jwk(elsewhere.private), "kid": elsewhere.signer.kid}
    if vouch == "document without the key":
        elsewhere.publish(signing.public_jwk(signing.generate_key("EdDSA")))
    else:
        del elsewhere.server.pages["/a2a/report/did.json"]
    if vouch in (Vouch.CARD, "document without the key"):
        await db.run(RemoteAgent.objects.update, pinned_keys=[key])
    if vouch == Vouch.KEY_SET:
        elsewhere.server.pages["/.well-known/jwks.json"] = {"keys": [key]}
    found = await elsewhere.complete(elsewhere.told())
    expected = (Verdict.GOOD, vouch) if vouch in (Vouch.CARD, Vouch.KEY_SET) else (Verdict.UNKNOWN_KEY, "")
    assert (found.verdict, found.vouched_by) == expected


@pytest.mark.parametrize("returns", [True, False])
async def test_absent_servers_are_asked_again(elsewhere, returns):
    document = elsewhere.server.pages["/a2a/report/did.json"]
    elsewhere.server.pages["/a2a/report/did.json"] = (503, {}, b"later")
    key = {**signing.public_jwk(elsewhere.private), "kid": elsewhere.signer.kid}
    await db.run(RemoteAgent.objects.update, pinned_keys=[key])
    found = await elsewhere.complete(elsewhere.told())
    assert (found.verdict, found.tries) == (Verdict.PENDING, 1)
    assert await work_off(artifact_verification.SIGNATURES) == 0, "it is not due"
    if returns:
        elsewhere.server.pages["/a2a/report/did.json"] = document
    past, most = timezone.now() - datetime.timedelta(hours=1), artifact_verification.MOST_TRIES
    for tries in (most - 2, most - 1):
        resolver.forget()
        await db.run(ForeignSignature.objects.filter(verdict=Verdict.PENDING).update, next_try_at=past, tries=tries)
        await work_off(artifact_verification.SIGNATURES)
        found = await db.run(ForeignSignature.objects.get)
        assert (found.verdict == Verdict.GOOD) is (returns or tries == most - 1), "other keys count at the last try"
    assert found.vouched_by == (Vouch.DID if returns else Vouch.CARD)


def test_pages_api_transcripts_and_provenance_say_it(elsewhere, ada, client):
    client.force_login(ada)
    row, key = elsewhere.row, {"kid": "the-key", "alg": "EdDSA"}
    found = ForeignSignature.objects.create(
        task=row.task_id, artifact_id="one", agent=elsewhere.agent, verdict=Verdict.GOOD, key=key, vouched_by=Vouch.DID,
        claims={"agent": elsewhere.did, "created": "2026-01-02T03:04:05Z", "inputSnapshot": "", "signature": "a..b"},
    )  # fmt: skip

    def told() -> list[str]:
        page = client.get(f"/sessions/{row.task.context_id}/artifacts/{row.task_id}/one/look").text
        verification = client.get(f"/api/v1/artifacts/{row.task_id}/one/verify").json()
        found = "Signature valid" in page, "signature valid" in markdown_of(row.task.context)
        return [*found, verification["result"], provenance_of(ada.principal, row).nodes[0].details.get("signature", "")]

    assert told() == [True, True, "valid", "good"]
    assert not found.conclude(Verdict.BROKEN), "it has a verdict"
    ForeignSignature.objects.update(verdict=Verdict.PENDING)
    found.conclude(Verdict.BROKEN, "Changed on the way.")
    assert told() == [False, False, "invalid", "broken"]

    ForeignSignature.objects.update(verdict=Verdict.GOOD, key=key, vouched_by=Vouch.DID)
    Artifact.objects.filter(pk=row.pk).update(parts=[{"text": "changed in the database"}])
    assert examine(Artifact.objects.get(pk=row.pk)).verdict == Verdict.BROKEN

    erase_foreign([row.task.context_id])
    assert not ForeignSignature.objects.exists()


# Identities of other installations are where did:web says, and only what is theirs is believed

KEY = signing.public_jwk(signing.generate_key("EdDSA"))


def test_a_document_is_where_the_method_says():
    for did, url in {
        "did:web:parley.example": "https://parley.example/.well-known/did.json",
        "did:web:parley.example:a2a:report": "https://parley.example/a2a/report/did.json",
        "did:web:%5B%3A%3A1%5D%3A8000": "https://[::1]:8000/.well-known/did.json",
    }.items():
        assert document_url(did) == url
    did = "did:web:127.0.0.1%3A8000"
    assert document_url(did, "http://127.0.0.1:8000").startswith("http://127.0.0.1:8000/")
    assert document_url(did, "http://127.0.0.1:8001").startswith("https://")


async def test_what_is_no_did_web_is_not_fetched():
    for did in (
        "", "did:web:", "did:key:z6Mk", "did:web:a b", "did:web:host:..:x", "did:web:host:%2E%2E", "did:web:u@host",
        "did:web:host%2Fx", "did:web:host:a?b", "did:web:" + "a" * 2000, "did:web:127.0.0.1%3A1",
    ):  # fmt: skip
        with pytest.raises(Unresolved) as refused:
            await DidResolver().resolve(did)
        assert refused.value.is_final, did


def document(did: str, **changes: Any) -> dict[str, Any]:
    method = {"id": f"{did}#one", "type": "JsonWebKey2020", "controller": did, "publicKeyJwk": KEY}
    return {"id": did, "verificationMethod": [method], "assertionMethod": [f"{did}#one"], **changes}


def test_documents_give_their_own_assertion_keys():
    did = "did:web:host"
    embedded = {"id": "#two", "controller": did, "publicKeyJwk": KEY}
    assert read_document(did, document(did)).keys == {"one": KEY}
    assert read_document(did, document(did, assertionMethod=["#one", embedded])).keys == {"one": KEY, "two": KEY}
    for changes in (
        {"assertionMethod": []},
        {"assertionMethod": None},
        {"assertionMethod": ["did:web:other#one"]},
        {"verificationMethod": [{"id": "#one", "controller": "did:web:other", "publicKeyJwk": KEY}]},
        {"verificationMethod": [{"id": f"{did}#one", "publicKeyJwk": "no key"}]},
    ):
        assert read_document(did, document(did, **changes)).keys == {}, changes
    with pytest.raises(Unresolved):
        read_document(did, document("did:web:other"))


async def test_documents_are_fetched_and_kept_a_while(cards_at):
    now = 0.0
    resolver = DidResolver(clock=lambda: now)
    did = f"did:web:127.0.0.1%3A{cards_at.server_address[1]}"
    cards_at.pages["/.well-known/did.json"] = document(did)
    for _ in range(3):
        assert (await resolver.resolve(did, unencrypted=cards_at.url)).keys == {"one": KEY}
    assert len(cards_at.requests) == 1
    now = CACHE_SECONDS + 1
    cards_at.pages["/.well-known/did.json"] = document(did, assertionMethod=[])
    assert (await resolver.resolve(did, unencrypted=cards_at.url)).keys == {}
    cards_at.pages["/.well-known/did.json"] = b"x" * (300 * 1024)
    with pytest.raises(Unresolved):
        await resolver.resolve(did, unencrypted=cards_at.url, fresh=True)
    with pytest.raises(Unresolved):  # over HTTPS there is nobody
        await resolver.resolve(did)
