"""Deployments: agents whose folders operators send, and the secrets of their processes."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema_field, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agentkit import HandlerError
from agentkit.command.packing import MOST_BYTES, MOST_FILES, Packed
from apps.accounts.models import check_operates, person_of
from apps.accounts.principals import AGENTS
from apps.accounts.requests import bodies, quotas
from apps.agents import cards
from apps.agents.models import Agent, AgentNotFound
from apps.api.framework.resources import ModelShape, ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, page_of
from apps.api.framework.views import Operations
from apps.api.shapes import JSON
from apps.conversations.uploads import resumable
from apps.deployments import folders, registering
from apps.deployments.models import (
    ACCESS,
    DEPLOY,
    REMOVE_SECRETS,
    SEE_DEPLOYMENTS,
    SEE_SECRETS,
    SET_SECRETS,
    AgentSecret,
    Deployment,
)
from apps.record.content import blobs
from apps.record.errors import FileTooLarge, InvalidFields
from parley import db

LONGEST_SECRET = 10_000  # characters
EXAMPLE = {"slug": "travel", "uploadId": "00000000-0000-0000-0000-000000000001"}


class Lines(serializers.ListField):
    child = serializers.CharField()

    def to_representation(self, data: str) -> list[str]:  # type: ignore[override]
        return data.splitlines()


@extend_schema_field(OpenApiTypes.STR)
class AgentUrl(serializers.ReadOnlyField):
    def to_representation(self, value: Agent) -> str:
        return cards.agent_url(value)


@extend_schema_serializer(component_name="Deployment")
class DeploymentShape(ModelShape):
    """A folder that becomes an agent, or an agent's newest version. A worker makes it."""

    progress = Lines(read_only=True, help_text="What was done, a line each. The last line is what is being done.")
    url = AgentUrl(source="agent", allow_null=True, help_text="The agent's A2A URL. Null until it is there.")

    class Meta:
        model = Deployment
        fields = (
            "id", "slug", "access", "as_candidate", "state", "progress", "problem", "log", "version", "url", "digest",
            "files", "size", "created_at", "finished_at",
        )  # fmt: skip


class NewDeployment(Body):
    slug = Line(max_length=63, help_text=Deployment._meta.get_field("slug").help_text)
    upload_id = serializers.UUIDField(
        help_text="The id of one of your complete uploads: a ZIP, tar or tar.gz file of a folder with an `agent.yaml`, "
        f"of at most {MOST_FILES:,} files and {MOST_BYTES // 1024**2} MiB."
    )
    access = Choice(
        ACCESS,
        default="",
        allow_blank=True,
        help_text=Deployment._meta.get_field("access").help_text,
    )
    as_candidate = serializers.BooleanField(
        default=False, help_text=Deployment._meta.get_field("as_candidate").help_text
    )
    secrets = serializers.DictField(
        child=serializers.CharField(max_length=LONGEST_SECRET, trim_whitespace=False),
        default=dict,
        help_text="Secrets that the `agent.yaml` names, by their names. The agent gets them when it is deployed.",
    )


class Deployments(ResourceViewSet):
    resource = registering.RESOURCE
    usual = ("list", "create", "retrieve")
    scopes = dict.fromkeys(("GET", "HEAD", "POST"), AGENTS)
    rights = {"GET": SEE_DEPLOYMENTS, "HEAD": SEE_DEPLOYMENTS, "POST": DEPLOY}
    shape = DeploymentShape
    notes = {
        "list": "For operators. Those of the last 90 days.",
        "retrieve": "For operators. Ask again until the state is `done` or `failed`. `log` has the end of what the "
        "agent's setup and its process printed by then.",
    }

    @documented(
        "deployments_create",
        "Deploy an agent's folder",
        body=NewDeployment,
        answers={202: DeploymentShape},
        refuses=[404, 409],
        examples=[OpenApiExample("A folder", EXAMPLE, request_only=True)],
    )
    async def create(self, request: Request) -> Response:
        """For operators: its code runs on the server. A folder that is already the agent's newest version makes no
        other one. The same request again, while the deployment waits, leads to the same deployment.
        """
        asked = self.body(NewDeployment)
        part = await db.run(self._admitted, asked)
        packed = await bodies.work_on(part["stored"]["size"], _packed, part)
        return Response(await db.run(self._begun, asked, packed), status=202)

    def _admitted(self, asked: JSON) -> JSON:
        """The upload. Raises MissingRight, QuotaExceeded, UploadNotFound, InvalidParams, FileTooLarge."""
        if asked["secrets"]:
            check_operates(self.principal, SET_SECRETS)
        quotas.count_act(self.principal)
        part = resumable.message_part(self.principal, asked["upload_id"])
        if part["stored"]["size"] > folders.MOST_ARCHIVE_BYTES:
            raise FileTooLarge(f"An agent's folder may have at most {MOST_BYTES // 1024**2} MiB.")
        return part

    def _begun(self, asked: JSON, packed: Packed) -> Any:
        """Raises InvalidFields."""
        given = {name: asked[name] for name in ("access", "as_candidate", "secrets")}
        try:
            begun = registering.begin(asked["slug"], packed, **given, author=person_of(self.principal))
        except ValidationError as error:
            raise InvalidFields.of(error) from None
        registering.DEPLOYMENTS.publish(begun.pk)
        return self.shown(DeploymentShape, begun)


def _packed(part: JSON) -> Packed:
    """Raises InvalidFields."""
    try:
        with blobs.open_content(part) as file:
            return folders.pack_archive(file.read())
    except HandlerError as error:
        raise InvalidFields([("uploadId", str(error))]) from None


@extend_schema_serializer(component_name="AgentSecret")
class SecretShape(ModelShape):
    """A secret of an agent's process. Nobody can read its value."""

    class Meta:
        model = AgentSecret
        fields = ("name", "updated_at")
        read_only_fields = fields


class NewAgentSecret(Body):
    value = serializers.CharField(max_length=LONGEST_SECRET, trim_whitespace=False)


class Secrets(Operations):
    """Of agents that have a folder."""

    scopes = dict.fromkeys(("GET", "HEAD", "PUT", "DELETE"), AGENTS)
    rights = {"GET": SEE_SECRETS, "HEAD": SEE_SECRETS, "PUT": SET_SECRETS, "DELETE": REMOVE_SECRETS}

    @documented(
        "agent_secrets_list",
        "List the names of an agent's secrets",
        query=Listing,
        answers={200: page_of(SecretShape)},
    )
    def list(self, request: Request, slug: str) -> Response:
        """For operators."""
        rows = self._secrets(slug)
        return self.page(rows, ("name",), self.query(Listing), lambda found: SecretShape(found, many=True).data)

    @documented("agent_secrets_set", "Set a secret of an agent", body=NewAgentSecret, answers={200: SecretShape})
    def give(self, request: Request, slug: str, name: str) -> Response:
        """For operators. The agent's process gets it with the next message, if its `agent.yaml` names it."""
        value = self.body(NewAgentSecret)["value"]
        try:
            secret = registering.set_secret(self._agent(slug), name, value, self.principal)
        except ValidationError as error:
            raise InvalidFields.of(error) from None
        return Response(SecretShape(secret).data)

    @documented("agent_secrets_delete", "Delete a secret of an agent", answers=None)
    def remove(self, request: Request, slug: str, name: str) -> Response:
        """For operators."""
        registering.remove_secret(self._secrets(slug).find(self.principal, name), self.principal)
        return Response(status=204)

    def _secrets(self, slug: str) -> Any:
        rows = AgentSecret.objects.visible_to(self.principal).filter(agent=self._agent(slug))
        return rows.select_related("agent")

    def _agent(self, slug: str) -> Agent:
        """Raises AgentNotFound."""
        found = Agent.objects.select_related("current_version").filter(slug=slug).first()
        if found is None or not found.folder or not self.principal.may_use(slug):
            raise AgentNotFound
        return found


urlpatterns = [
    *Deployments.urls(),
    path("agents/<str:slug>/secrets", Secrets.at(get="list"), name="agent-secrets"),
    path("agents/<str:slug>/secrets/<str:name>", Secrets.at(put="give", delete="remove"), name="agent-secret"),
]
