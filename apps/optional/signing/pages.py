"""The signature of an artifact, as people see it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import path

from apps.agents.identities import identity
from apps.conversations.pages.artifacts import artifact_or_404, artifact_url
from apps.conversations.pages.urls import ARTIFACT
from apps.optional.signing import signatures
from apps.optional.signing.models import Verdict
from apps.record.events import JSON
from apps.record.models import Artifact, Context
from apps.web.shell import reader_view, session_or_404

TEMPLATE = "signing/_signature.html"


@dataclass(frozen=True, slots=True)
class SignatureLabel:
    sign: str
    name: str
    sentence: str


SIGNATURE_LABELS = {
    Verdict.GOOD: SignatureLabel("done", "Signature valid", "The file is unchanged since the agent signed it."),
    Verdict.BROKEN: SignatureLabel(
        "failed", "Signature invalid", "The file was changed after the agent signed it. Do not rely on it."
    ),
    Verdict.UNKNOWN_KEY: SignatureLabel(
        "failed",
        "Signed by an unknown key",
        "This server does not know the key that signed this file. Do not rely on it.",
    ),
    Verdict.REVOKED: SignatureLabel(
        "failed", "Signing key revoked", "The key that signed this file is no longer trusted. Do not rely on it."
    ),
    Verdict.MISSING: SignatureLabel(
        "none", "Not signed", "The agent did not sign this file, so changes cannot be detected."
    ),
    Verdict.PENDING: SignatureLabel(
        "none", "Signed, not verified yet", "The agent's keys are on another server and are being fetched."
    ),
}
NOT_VERIFIED = SignatureLabel("none", "Signed, not verified yet", "Large files are verified only when you ask.")


def note_of(request: HttpRequest, context: Context, row: Artifact, is_small: bool) -> str:
    """For the artifact's preview, as HTML. Large ones are verified when the reader asks."""
    return render_to_string(TEMPLATE, _signature(context, row, is_asked=is_small), request)


@reader_view
def artifact_signature(request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str) -> HttpResponse:
    """Verify the signature now; the result is a fragment."""
    context = session_or_404(request, session)
    found = _signature(context, artifact_or_404(context, task, artifact, is_delivered=True), is_asked=True)
    return render(request, TEMPLATE, {**found, "is_open": True})


def _signature(context: Context, row: Artifact, *, is_asked: bool) -> JSON:
    place = {"signature": row.signature, "verify": artifact_url(context.pk, row, "artifact-signature")}
    if row.signature and not is_asked:
        return place | {"verdict": NOT_VERIFIED}
    found = signatures.examine(row)
    signer = found.key.agent.name if found.key and found.key.agent else ""
    return place | {
        "signature": found.claims,
        "verdict": SIGNATURE_LABELS[found.verdict],
        "key": found.key,
        "foreign": found.foreign,
        "signer": signer,
        "digest": row.digest,
        "key_set_url": "" if found.foreign else identity.key_set_url(),
    }


urlpatterns = [path(f"{ARTIFACT}/signature", artifact_signature, name="artifact-signature")]
