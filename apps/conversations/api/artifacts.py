"""Artifacts: their versions, content and provenance."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence

from django.db.models import Q
from django.http import FileResponse, StreamingHttpResponse
from django.urls import path, register_converter
from django.urls.converters import StringConverter
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.audit_models import AuditAction
from apps.accounts.principals import Principal
from apps.api.framework.schema import FILE_ANSWERS, documented
from apps.api.framework.serializers import Line, Listing, Query, Shape, Struct, page_of
from apps.api.framework.views import Operations
from apps.api.shapes import JSON, ArtifactShape, artifacts_json
from apps.conversations.provenance.graph import PROV_RELATIONS, PROV_TYPES, EdgeKind, NodeKind
from apps.conversations.provenance.traversal import provenance_of
from apps.conversations.public_links import downloads
from apps.record import lineage
from apps.record.content.parts import part_at, pieces_joined
from apps.record.lineage import artifact_versions
from apps.record.models import Artifact
from apps.record.reading import unfinished
from apps.record.reading.lookup import find_session
from parley import db


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


class Artifacts(Operations):
    @documented(
        "artifacts_list",
        "List the artifacts of a session, in order of delivery",
        query=ArtifactListing,
        answers=page_of(ArtifactShape),
        refuses=[404],
    )
    def list(self, request: Request) -> Response:
        asked = self.query(ArtifactListing)
        context = find_session(self.principal, asked["session"])
        narrowed = {name: asked[name] for name in ("task", "name") if name in asked}
        rows = lineage.artifacts(context)
        left = {row.pk: row for row in unfinished.find(context)} if asked["unfinished"] else {}
        if left:
            rows = Artifact.objects.filter(Q(pk__in=rows.values("pk")) | Q(pk__in=left))

        def show(shown: Sequence[Artifact]) -> list[JSON]:
            ended = unfinished.with_parts([left[row.pk] for row in shown if row.pk in left])
            delivered = [row for row in shown if row.pk not in left]
            return artifacts_json(context.pk, [*delivered, *ended], artifact_versions(context) if delivered else {})

        return self.page(rows.filter(**narrowed), ("first_event", "id"), asked, show)

    @documented("artifacts_retrieve", "Retrieve an artifact", answers=ArtifactShape)
    def retrieve(self, request: Request, task: uuid.UUID, artifact: str) -> Response:
        row = unfinished.find_artifact(self.principal, task, artifact)
        context = row.task.context
        return Response(artifacts_json(context.pk, [row], artifact_versions(context))[0])

    @documented(
        "artifacts_bundle",
        "Download all artifacts of a session as a ZIP file",
        query=Bundling,
        answers={**FILE_ANSWERS, (200, "application/zip"): OpenApiTypes.BINARY},
    )
    async def bundle(self, request: Request, session: uuid.UUID) -> StreamingHttpResponse:
        """The ZIP file contains the newest version of each name. Its `links.txt` lists the parts that are links to
        other sites.
        """
        every = self.query(Bundling)["every_version"]
        context = await db.run(find_session, self.principal, session)
        bundle = await db.run(downloads.bundle_of_session, context, every_version=every)
        await db.run(downloads.record_download, AuditAction.FILES_EXPORTED, context, request._request, self.principal)
        return downloads.zip_response(context, bundle)

    @documented("artifacts_content", "Download one part of an artifact", query=Content, answers=FILE_ANSWERS)
    async def content(self, request: Request, task: uuid.UUID, artifact: str) -> FileResponse:
        """Text that was streamed in pieces is one part. A part that is a link to another site has no content here."""
        asked = self.query(Content)
        part, name = await db.run(find_part, self.principal, task, artifact, asked["part"])
        return downloads.stream_response(
            await asyncio.to_thread(downloads.file_response, part, name, is_download=not asked["inline"])
        )

    @documented("artifacts_provenance", "Retrieve the provenance of an artifact", answers=ProvenanceShape)
    def provenance(self, request: Request, task: uuid.UUID, artifact: str) -> Response:
        """The graph has the tasks, messages, agents, versions and files that led to the artifact, in the terms of
        W3C PROV.

        A task that was deleted or is not yours is a node of the kind `unavailable`.
        """
        row = unfinished.find_artifact(self.principal, task, artifact, delivered=True)
        return Response(provenance_of(self.principal, row).json)


def find_part(principal: Principal, task: uuid.UUID, artifact: str, number: int) -> tuple[JSON, str]:
    """A part and its file name. Raises NotFound, also for links."""
    row = unfinished.find_artifact(principal, task, artifact)
    parts = pieces_joined(row.parts)
    return part_at(parts, number), row.name or row.artifact_id


ARTIFACT = "artifacts/<uuid:task>/<own:artifact>"

urlpatterns = [
    path("sessions/<uuid:session>/artifacts.zip", Artifacts.at(get="bundle"), name="artifact-bundle"),
    path("artifacts", Artifacts.at(get="list"), name="artifacts"),
    path(f"{ARTIFACT}/content", Artifacts.at(get="content"), name="artifact-content"),
    path(f"{ARTIFACT}/provenance", Artifacts.at(get="provenance"), name="artifact-provenance"),
    path(ARTIFACT, Artifacts.at(get="retrieve"), name="artifact"),
]
