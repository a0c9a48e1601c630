"""A remote agent's own signature on an artifact is verified beside the record, and pages and the API say so."""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

import db
from agentkit import Artifact as Made
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import User
from apps.agents import signing
from apps.agents.signing import Signer
from apps.features.provenance.traversal import provenance_of
from apps.features.sharing.transcripts import markdown_of
from apps.features.signing.models import ForeignSignature, Verdict, Vouch
from apps.features.signing.signatures import erase_foreign, examine
from apps.record.content.strict_json import canonical
from apps.record.models import Artifact
from apps.remote.execution import cancellation
from apps.remote.identity import artifact_verification
from apps.remote.identity.artifact_verification import EXTENSION
from apps.remote.identity.did_web import resolver
from apps.remote.models import RemoteAgent
from tests.api.delivering import delivered
from tests.remote.card_server import CardServer
from tests.remote.registered import remote_agent
from tests.web import telling

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
def elsewhere(cards_at: CardServer, ada: User) -> Iterator[Elsewhere]:
    resolver.forget()
    yield Elsewhere(cards_at, ada)
    resolver.forget()


async def test_a_signature_by_a_key_of_the_agents_identity_is_good(elsewhere: Elsewhere) -> None:
    before = await db.run(lambda: Artifact.objects.values().get())
    found = await elsewhere.complete(elsewhere.told())
    assert (found.verdict, found.vouched_by, found.signer) == (Verdict.GOOD, Vouch.DID, elsewhere.did)
    assert (found.key["kid"], found.statement) == (elsewhere.signer.kid, "")
    assert await db.run(lambda: Artifact.objects.values().get()) == before


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ({"parts": [{"text": "hallo"}]}, Verdict.BROKEN),
        ({"parts": [{"text": "hello", "raw": "x"}]}, Verdict.BROKEN),
        ({"parts": [{"stored": {"sha256": "0" * 64}}]}, Verdict.BROKEN),
        ({"task": "another"}, Verdict.BROKEN),
        ({"did": "did:web:127.0.0.1%3A1:a2a:report"}, Verdict.UNKNOWN_KEY),
        ({"did": "no identity"}, Verdict.UNKNOWN_KEY),
    ],
)
async def test_any_other_is_not(elsewhere: Elsewhere, told: JSON, verdict: Verdict) -> None:
    found = await elsewhere.complete(elsewhere.told(**told))
    assert found.verdict == verdict
    wrong = await db.run(lambda: AuditEntry.objects.filter(action="signature.wrong").count())
    assert wrong == (verdict == Verdict.BROKEN)


async def test_a_key_that_its_identity_does_not_have_is_unknown_even_if_it_is_pinned(elsewhere: Elsewhere) -> None:
    pinned = [{**signing.public_jwk(elsewhere.private), "kid": elsewhere.signer.kid}]
    await db.run(RemoteAgent.objects.update, pinned_keys=pinned)
    elsewhere.publish(signing.public_jwk(signing.generate_key("EdDSA")))
    assert (await elsewhere.complete(elsewhere.told())).verdict == Verdict.UNKNOWN_KEY


@pytest.mark.parametrize("vouch", [Vouch.CARD, Vouch.KEY_SET, None])
async def test_without_a_document_the_cards_key_and_the_servers_key_set_vouch(
    elsewhere: Elsewhere, vouch: Vouch | None
) -> None:
    del elsewhere.server.pages["/a2a/report/did.json"]
    key = {**signing.public_jwk(elsewhere.private), "kid": elsewhere.signer.kid}
    if vouch == Vouch.CARD:
        await db.run(RemoteAgent.objects.update, pinned_keys=[key])
    if vouch == Vouch.KEY_SET:
        elsewhere.server.pages["/.well-known/jwks.json"] = {"keys": [key]}
    found = await elsewhere.complete(elsewhere.told())
    assert (found.verdict, found.vouched_by) == ((Verdict.GOOD, vouch) if vouch else (Verdict.UNKNOWN_KEY, ""))


async def test_a_server_that_is_away_is_asked_again_by_the_sweep(elsewhere: Elsewhere) -> None:
    document = elsewhere.server.pages["/a2a/report/did.json"]
    elsewhere.server.pages["/a2a/report/did.json"] = (503, {}, b"later")
    found = await elsewhere.complete(elsewhere.told())
    assert (found.verdict, found.tries) == (Verdict.PENDING, 1)
    elsewhere.server.pages["/a2a/report/did.json"] = document
    resolver.forget()
    assert await db.run(artifact_verification.verify_due) == 0
    past = timezone.now() - datetime.timedelta(seconds=1)
    await db.run(ForeignSignature.objects.filter(next_try_at__gt=timezone.now()).update, next_try_at=past)
    assert await db.run(artifact_verification.verify_due) == 1
    assert (await db.run(ForeignSignature.objects.get)).verdict == Verdict.GOOD


def test_pages_the_api_transcripts_and_provenance_say_it(elsewhere: Elsewhere, ada: User, client: Client) -> None:
    client.force_login(ada)
    row, key = elsewhere.row, {"kid": "the-key", "alg": "EdDSA"}
    found = ForeignSignature.objects.create(
        task=row.task_id, artifact_id="one", agent=elsewhere.agent, verdict=Verdict.GOOD, key=key, vouched_by=Vouch.DID,
        claims={"agent": elsewhere.did, "created": "2026-01-02T03:04:05Z", "inputSnapshot": "", "signature": "a..b"},
    )  # fmt: skip

    def told() -> tuple[str, JSON, str, str]:
        page = client.get(f"/sessions/{row.task.context_id}/artifacts/{row.task_id}/one/look").text
        verification = client.get(f"/api/v1/artifacts/{row.task_id}/one/verify").json()
        graph = provenance_of(ada.principal, row)
        return page, verification, markdown_of(row.task.context), graph.nodes[0].details.get("signature", "")

    page, verification, transcript, node = told()
    for said in ("Signature valid", elsewhere.did, "the-key"):
        assert said in page
    assert (verification["result"], verification["agent"], verification["foundBy"]) == ("valid", elsewhere.did, "did")
    assert verification["key"]["id"] == "the-key"
    assert "signature valid" in transcript
    assert node == "good"

    found.conclude(Verdict.BROKEN, "Changed on the way.")
    page, verification, transcript, node = told()
    for said in ("Signature invalid", "Changed on the way."):
        assert said in page
    assert (verification["result"], node) == ("invalid", "broken")
    assert "SIGNATURE INVALID" in transcript

    found.conclude(Verdict.GOOD, key=key, by=Vouch.DID)
    Artifact.objects.filter(pk=row.pk).update(parts=[{"text": "changed in the database"}])
    assert examine(Artifact.objects.get(pk=row.pk)).verdict == Verdict.BROKEN

    erase_foreign(row.task.context)
    assert not ForeignSignature.objects.exists()
