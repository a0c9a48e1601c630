"""Artifacts: their versions, content, signatures and provenance."""

from __future__ import annotations

import asyncio
import uuid

from django.db.models import Q
from django.http import FileResponse, StreamingHttpResponse
from django.urls import path, register_converter
from django.urls.converters import StringConverter
from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts.audit_models import AuditAction
from apps.accounts.principals import Principal
from apps.agents import identity
from apps.api.framework.schema import FILE_ANSWERS, documented
from apps.api.framework.serializers import Line, Listing, Query, Shape, Struct, page_of
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON, ArtifactShape, artifacts_json
from apps.features.provenance.graph import PROV_RELATIONS, PROV_TYPES, EdgeKind, NodeKind
from apps.features.provenance.traversal import provenance_of
from apps.features.sharing import downloads
from apps.features.signing import signatures
from apps.features.signing.models import Verdict, Vouch
from apps.record import lineage, unfinished
from apps.record.content.parts import part_at, pieces_joined
from apps.record.lineage import artifact_versions
from apps.record.lookup import find_session
from apps.record.models import Artifact

RESULTS = {Verdict.GOOD: "valid", Verdict.MISSING: "unsigned", Verdict.PENDING: "pending"}
"""What a verdict comes to; any other is `invalid`."""


class AgentsOwnId(StringConverter):
    """An id chosen by an agent: no slash at either end."""

    regex = "[^/](?:.*[^/])?"


register_converter(AgentsOwnId, "own")


class ArtifactListing(Listing):
    session = serializers.UUIDField(help_text="The id of a session.")
    task = serializers.UUIDField(required=False)
    name = Line(required=False, max_length=250, help_text="All versions of artifacts with this name.")
    unfinished = serializers.BooleanField(
        default=False,
        help_text="Whether to include what tasks had streamed when they failed or were stopped.",
    )


class Bundling(Query):
    every_version = serializers.BooleanField(
        default=False, help_text="Whether to include older versions. Their file names are numbered."
    )


class Content(Query):
    part = serializers.IntegerField(
        default=0, min_value=0, max_value=1_000_000, help_text="The index of the part, starting at 0."
    )
    inline = serializers.BooleanField(
        default=False,
        help_text="Whether browsers should display the content instead of downloading it. This applies only to "
        "types that browsers display safely.",
    )


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


class Artifacts(Endpoint):
    @documented(
        "artifacts_list",
        "List the artifacts of a session, in order of delivery",
        query=ArtifactListing,
        answers={200: page_of(ArtifactShape)},
        refuses=[404],
    )
    def get(self, request: Request) -> Response:
        asked = self.query(ArtifactListing)
        context = find_session(self.principal, asked["session"])
        narrowed = {name: asked[name] for name in ("task", "name") if name in asked}
        rows, bound = lineage.artifacts(context), (context.pk, asked["unfinished"], *narrowed.items())
        left = {row.pk: row for row in unfinished.find(context)} if asked["unfinished"] else {}
        if left:
            rows = Artifact.objects.filter(Q(pk__in=rows.values("pk")) | Q(pk__in=left))

        def show(shown: list[Artifact]) -> list[JSON]:
            ended = unfinished.with_parts([left[row.pk] for row in shown if row.pk in left])
            delivered = [row for row in shown if row.pk not in left]
            return artifacts_json(context.pk, [*delivered, *ended], artifact_versions(context) if delivered else {})

        return self.page(rows.filter(**narrowed), ("first_event", "id"), asked, show, "artifacts", *bound)


class OneArtifact(Endpoint):
    @documented("artifacts_retrieve", "Retrieve an artifact", answers={200: ArtifactShape})
    def get(self, request: Request, task: uuid.UUID, artifact: str) -> Response:
        row = unfinished.find_artifact(self.principal, task, artifact)
        context = row.task.context
        return Response(artifacts_json(context.pk, [row], artifact_versions(context))[0])


class ArtifactBundle(Endpoint):
    @documented(
        "artifacts_bundle",
        "Download all artifacts of a session as a ZIP file",
        query=Bundling,
        answers={**FILE_ANSWERS, (200, "application/zip"): OpenApiTypes.BINARY},
    )
    async def get(self, request: Request, session: uuid.UUID) -> StreamingHttpResponse:
        """The ZIP file contains the newest version of each name. Its `links.txt` lists the parts that are links to
        other sites.
        """
        every = self.query(Bundling)["every_version"]
        context = await db.run(find_session, self.principal, session)
        bundle = await db.run(downloads.bundle_of_session, context, every_version=every)
        await db.run(downloads.record_download, AuditAction.FILES_EXPORTED, context, request._request, self.principal)
        return downloads.zip_response(context, bundle)


class ArtifactContent(Endpoint):
    @documented("artifacts_content", "Download one part of an artifact", query=Content, answers=FILE_ANSWERS)
    async def get(self, request: Request, task: uuid.UUID, artifact: str) -> FileResponse:
        """Text that was streamed in pieces is one part. A part that is a link to another site has no content here."""
        asked = self.query(Content)
        part, name = await db.run(find_part, self.principal, task, artifact, asked["part"])
        return downloads.stream_response(
            await asyncio.to_thread(downloads.file_response, part, name, is_download=not asked["inline"])
        )


class ArtifactVerification(Endpoint):
    @documented("artifacts_verify", "Verify an artifact's signature", answers={200: Verification})
    def get(self, request: Request, task: uuid.UUID, artifact: str) -> Response:
        """The server reads the content again and compares it with the signed digest. `manage.py verify_artifact`
        makes the same check.
        """
        return Response(verification_json(unfinished.find_artifact(self.principal, task, artifact, delivered=True)))


@extend_schema_serializer(component_name="ProvenanceNode")
class NodeShape(Shape):
    """A node of a provenance graph: the artifact, or something that contributed to it."""

    id = serializers.CharField()
    kind = serializers.ChoiceField([kind.value for kind in NodeKind])
    prov = serializers.ChoiceField(
        sorted(set(PROV_TYPES.values())), help_text="The node's type in the PROV data model."
    )
    name = serializers.CharField(help_text="The node's name for people.")
    at = serializers.DateTimeField(
        allow_null=True, help_text="When the node's activity started, its message was sent, or its entity was created."
    )
    details = Struct(
        help_text="Further data. Its fields depend on `kind`. A file has its SHA-256 digest, name, media type and size."
    )


class _Link(Shape):
    """An edge of a provenance graph. It points from a later node to an earlier one."""

    kind = serializers.ChoiceField([kind.value for kind in EdgeKind])
    relation = serializers.ChoiceField(
        sorted(set(PROV_RELATIONS.values())), help_text="The relation in the PROV data model."
    )
    details = Struct(help_text="Further data. For `carried_out_by`: the turns. For `given`: the message.")


EdgeShape = type(
    "ProvenanceEdge",
    (_Link,),
    {
        "from": serializers.CharField(help_text="The id of the later node."),
        "to": serializers.CharField(help_text="The id of the earlier node."),
        "__doc__": _Link.__doc__,
    },
)


@extend_schema_serializer(component_name="Provenance")
class ProvenanceShape(Shape):
    """The provenance of an artifact: a graph of entities, activities and agents (W3C PROV)."""

    artifact = serializers.CharField(help_text="The id of the artifact's node.")
    nodes = NodeShape(many=True)
    edges = EdgeShape(many=True)
    truncated = serializers.BooleanField(
        help_text="Whether the graph is incomplete. If so, it has the nodes nearest to the artifact."
    )


class ArtifactProvenance(Endpoint):
    @documented("artifacts_provenance", "Retrieve the provenance of an artifact", answers={200: ProvenanceShape})
    def get(self, request: Request, task: uuid.UUID, artifact: str) -> Response:
        """The graph has the tasks, messages, agents, versions and files that led to the artifact, in the terms of
        W3C PROV.

        A task that was deleted or is not yours is a node of the kind `unavailable`.
        """
        return Response(
            provenance_of(self.principal, unfinished.find_artifact(self.principal, task, artifact, delivered=True)).json
        )


def verification_json(row: Artifact) -> JSON:
    """Verify an artifact now; `row.task.context` should be loaded."""
    found = signatures.examine(row)
    return {
        "artifactId": row.artifact_id,
        "taskId": str(row.task_id),
        "result": RESULTS.get(found.verdict, "invalid"),
        "verdict": found.verdict.value,
        "digest": row.digest,
        "agent": found.claims.get("agent", ""),
        "signedAt": _time_or_none(found.claims.get("created", "")),
        "key": _key_json(found),
        "foundBy": found.foreign.vouched_by if found.foreign else "",
        "reason": found.foreign.reason if found.foreign else "",
        "keySetUrl": identity.key_set_url(),
    }


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
    return {
        "id": key.kid,
        "algorithm": key.algorithm,
        "agent": identity.did_of(key.agent),
        "isRevoked": key.revoked_at is not None,
    }


def find_part(principal: Principal, task: uuid.UUID, artifact: str, number: int) -> tuple[JSON, str]:
    """A part and its file name. Raises NotFound, also for links."""
    row = unfinished.find_artifact(principal, task, artifact)
    parts = pieces_joined(row.parts)
    return part_at(parts, number), row.name or row.artifact_id


urlpatterns = [
    path("sessions/<uuid:session>/artifacts.zip", ArtifactBundle.as_view(), name="artifact-bundle"),
    path("artifacts", Artifacts.as_view(), name="artifacts"),
    path("artifacts/<uuid:task>/<own:artifact>/content", ArtifactContent.as_view(), name="artifact-content"),
    path("artifacts/<uuid:task>/<own:artifact>/verify", ArtifactVerification.as_view(), name="artifact-verification"),
    path("artifacts/<uuid:task>/<own:artifact>/provenance", ArtifactProvenance.as_view(), name="artifact-provenance"),
    path("artifacts/<uuid:task>/<own:artifact>", OneArtifact.as_view(), name="artifact"),
]
