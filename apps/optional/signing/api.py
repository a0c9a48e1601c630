"""Verifying an artifact's signature."""

from __future__ import annotations

import uuid

from django.urls import path
from django.utils.dateparse import parse_datetime
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.agents.identities import identity
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Shape
from apps.api.framework.views import Operations
from apps.api.shapes import JSON
from apps.conversations.api.artifacts import ARTIFACT
from apps.optional.signing import signatures
from apps.optional.signing.models import Verdict, Vouch
from apps.record.models import Artifact
from apps.record.reading import unfinished

RESULTS = {Verdict.GOOD: "valid", Verdict.MISSING: "unsigned", Verdict.PENDING: "pending"}
"""What a verdict comes to; any other is `invalid`."""


class NamedKey(Shape):
    id = serializers.CharField(help_text="The SHA-256 thumbprint of the public key.")
    algorithm = serializers.CharField()
    agent = serializers.CharField(help_text="The DID of the agent that owns the key.")
    is_revoked = serializers.BooleanField()


class Verification(Shape):
    """The result of verifying an artifact's signature."""

    artifact_id = serializers.CharField()
    task_id = serializers.UUIDField()
    result = serializers.ChoiceField(["valid", "invalid", "unsigned", "pending"])
    verdict = serializers.ChoiceField([verdict.value for verdict in Verdict])
    digest = serializers.CharField(help_text="The SHA-256 digest of the canonical JSON of the artifact's parts.")
    agent = serializers.CharField(
        help_text="The DID of the agent that the signature names. Empty if the artifact is not signed."
    )
    signed_at = serializers.DateTimeField(allow_null=True)
    key = NamedKey(
        allow_null=True, help_text="The key that the signature names. Null if this server does not know the key."
    )
    found_by = serializers.ChoiceField(
        ["", *Vouch.values],
        help_text="Where the key of a remote agent's own signature was found. Empty for this server's agents.",
    )
    reason = serializers.CharField(help_text="Why a remote agent's own signature is not valid, or not verified yet.")
    key_set_url = serializers.CharField(help_text="The URL of this server's public keys.")


class Signatures(Operations):
    @documented("artifacts_verify", "Verify an artifact's signature", answers=Verification)
    def verify(self, request: Request, task: uuid.UUID, artifact: str) -> Response:
        """The server reads the content again and compares it with the signed digest. `manage.py verify_artifact`
        makes the same check.
        """
        return Response(verification_json(unfinished.find_artifact(self.principal, task, artifact, delivered=True)))


def verification_json(row: Artifact) -> JSON:
    """Verify an artifact now; `row.task.context` should be loaded."""
    found = signatures.examine(row)
    foreign = found.foreign
    return Verification.json_of(
        row,
        result=RESULTS.get(found.verdict, "invalid"),
        verdict=found.verdict.value,
        agent=found.claims.get("agent", ""),
        signed_at=_time_or_none(found.claims.get("created", "")),
        key=_key_json(found),
        found_by=foreign.vouched_by if foreign else "",
        reason=foreign.reason if foreign else "",
        key_set_url=identity.key_set_url(),
    )


def _time_or_none(text: str) -> str | None:
    """The time that a signature names; a remote agent's may be anything."""
    try:
        return text if parse_datetime(text) else None
    except ValueError:
        return None


def _key_json(found: signatures.Verification) -> JSON | None:
    key, foreign = found.key, found.foreign
    if foreign is not None and foreign.key:
        named = {"id": str(foreign.key.get("kid", "")), "algorithm": str(foreign.key.get("alg", ""))}
        return {**named, "agent": foreign.signer, "isRevoked": False}
    if key is None:
        return None
    known = {"id": key.kid, "agent": identity.did_of(key.agent), "is_revoked": key.revoked_at is not None}
    return NamedKey.json_of(key, **known)


urlpatterns = [path(f"{ARTIFACT}/verify", Signatures.at(get="verify"), name="artifact-verification")]
