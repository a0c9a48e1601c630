"""Read-only links to a session as it was, without sign-in."""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.http import FileResponse
from django.http.response import HttpResponseBase
from django.urls import path, reverse
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.requests import quotas
from apps.api.framework.schema import FILE_ANSWERS, documented
from apps.api.framework.serializers import Body, Shape, Struct
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON
from apps.conversations.public_links import downloads, shares
from apps.conversations.public_links.shares import Branch, Snapshot
from apps.record.content import rendering
from apps.record.content.parts import is_file, pieces_joined, words_of
from apps.record.errors import InvalidFields, InvalidParams
from apps.record.models import Artifact, Message
from parley import db

MAX_DAYS = 3650


class NewShare(Body):
    expires_in_days = serializers.IntegerField(default=30, min_value=1, max_value=MAX_DAYS)
    with_branches = serializers.BooleanField(
        default=False, help_text="Whether the link also shows forks of the session, as they are now."
    )
    with_artifacts = serializers.BooleanField(
        default=False, help_text="Whether the link also shows files and artifacts."
    )
    at = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        help_text="The index of an event. The link shows the session as it was after that event.",
    )


class ShareShape(Shape):
    id = serializers.UUIDField()
    session_id = serializers.UUIDField(source="context_id")
    at = serializers.IntegerField(source="upto", help_text="The index of the last event that the link shows.")
    with_branches = serializers.BooleanField()
    with_artifacts = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class NewShareShape(ShareShape):
    url = serializers.CharField(help_text="The URL of the page for people. Only this response contains it.")
    api_url = serializers.CharField(help_text="The URL for programs.")


class ShareList(Shape):
    items = ShareShape(many=True)


class SharedMessage(Shape):
    index = serializers.IntegerField()
    role = serializers.ChoiceField(Message.Role.choices)
    author = serializers.CharField()
    content = serializers.CharField()
    html = serializers.CharField(
        help_text="The text as HTML. It is safe to insert into a page. Empty for messages from people."
    )
    parts = serializers.ListField(child=Struct())
    timestamp = serializers.DateTimeField(source="created_at")


class SharedArtifact(Shape):
    name = serializers.CharField()
    description = serializers.CharField()
    digest = serializers.CharField()
    is_signed = serializers.BooleanField()
    unfinished = serializers.BooleanField(
        help_text="Whether the task failed or was stopped while it streamed the artifact."
    )
    parts = serializers.ListField(child=Struct())
    created_at = serializers.DateTimeField()


class SharedBranch(Shape):
    id = serializers.UUIDField()
    parent_id = serializers.UUIDField(allow_null=True)
    forked_at = serializers.IntegerField(
        allow_null=True,
        help_text="The index of the last event that the fork shares with its parent. Earlier content is in the parent.",
    )
    revision = serializers.IntegerField()
    messages = SharedMessage(many=True)
    artifacts = SharedArtifact(many=True)


class SharedSession(Shape):
    """A shared session, as it was when the link was created."""

    title = serializers.CharField()
    shared_by = serializers.CharField()
    created_at = serializers.DateTimeField(help_text="When the link was created.")
    expires_at = serializers.DateTimeField()
    branches = SharedBranch(many=True, help_text="The session, followed by its forks.")


class Shares(Endpoint):
    @documented("shares_list", "List the links to a session", answers={200: ShareList}, refuses=[409])
    def get(self, request: Request, session: uuid.UUID) -> Response:
        return Response({"items": ShareShape.list_of(shares.list_shares(self.principal, session))})

    @documented(
        "shares_create", "Create a link to a session", body=NewShare, answers={201: NewShareShape}, refuses=[409]
    )
    def post(self, request: Request, session: uuid.UUID) -> Response:
        """Anybody who has the link can read the session as it was. Reading requires no sign-in."""
        asked = self.body(NewShare)
        lifetime = datetime.timedelta(days=asked.pop("expires_in_days"))
        try:
            share, token = shares.create_share(self.principal, session, lifetime=lifetime, **asked)
        except InvalidParams as refusal:
            raise InvalidFields([(refusal.field, str(refusal))]) from None
        base = settings.PUBLIC_BASE_URL
        api_url = base + reverse("api:shared", args=[token])
        return Response(NewShareShape.json_of(share, url=f"{base}/shared/{token}", api_url=api_url), status=201)


class OneShare(Endpoint):
    @documented("shares_delete", "Revoke a link", answers={204: None}, refuses=[409])
    def delete(self, request: Request, session: uuid.UUID, share: uuid.UUID) -> Response:
        shares.revoke(self.principal, session, share)
        return Response(status=204)


class Public(Endpoint):
    """A page behind a link: no sign-in, no search engines, no referrer."""

    permission_classes = [AllowAny]

    async def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        response = await super().dispatch(request, *args, **kwargs)
        for name, value in downloads.LINK_HEADERS.items():
            response[name] = value
        return response

    def snapshot(self, token: str) -> Snapshot:
        """Raises ShareNotFound, QuotaExceeded."""
        quotas.count_view(self.address)
        return shares.find_snapshot(token)


class Shared(Public):
    @documented("shared_retrieve", "Retrieve a shared session", answers={200: SharedSession})
    def get(self, request: Request, token: str) -> Response:
        """This operation requires no credentials."""
        return Response(snapshot_json(self.snapshot(token), token))


class SharedFile(Public):
    @documented("shared_file", "Download a file of a shared session", answers=FILE_ANSWERS)
    async def get(
        self, request: Request, token: str, branch: uuid.UUID, kind: str, index: int, number: int
    ) -> FileResponse:
        """This operation requires no credentials. The response is always a download, whatever the file's type."""
        snapshot = await db.run(self.snapshot, token)
        part = snapshot.part(branch, kind, index, number)
        response = await asyncio.to_thread(downloads.file_response, part, f"{index}-{number}", is_download=True)
        response["Content-Type"] = "application/octet-stream"
        return downloads.stream_response(response)


def snapshot_json(snapshot: Snapshot, token: str) -> JSON:
    branches = [_branch_json(snapshot, branch, token) for branch in snapshot.branches]
    return SharedSession.json_of(snapshot.share, shared_by=snapshot.owner, branches=branches)


def _branch_json(snapshot: Snapshot, branch: Branch, token: str) -> JSON:
    is_fork = branch is not snapshot.branches[0]
    return SharedBranch.json_of(
        branch.context,
        parent_id=branch.context.parent_id if is_fork else None,
        forked_at=branch.context.forked_at if is_fork else None,
        revision=branch.upto,
        messages=[_message_json(snapshot, branch, said, token) for said in branch.messages],
        artifacts=[_artifact_json(snapshot, branch, made, token) for made in branch.artifacts],
    )


def _message_json(snapshot: Snapshot, branch: Branch, said: Message, token: str) -> JSON:
    words, around = words_of(said.parts), rendering.Surroundings(f"{branch.context.pk.hex}-{said.index}")
    return SharedMessage.json_of(
        said,
        author=snapshot.author(said),
        content=words,
        html=rendering.render_markdown(words, around) if said.role == Message.Role.AGENT else "",
        parts=list(_parts_json(snapshot, branch, "messages", said.index, said.parts, token)),
    )


def _artifact_json(snapshot: Snapshot, branch: Branch, made: Artifact, token: str) -> JSON:
    parts = pieces_joined(made.parts)
    return SharedArtifact.json_of(
        made,
        name=made.name or made.artifact_id,
        is_signed=bool(made.signature),
        unfinished=made.until is not None,
        parts=list(_parts_json(snapshot, branch, "artifacts", made.first_event, parts, token)),
    )


def _parts_json(
    snapshot: Snapshot, branch: Branch, kind: str, index: int, parts: list[JSON], token: str
) -> Iterable[JSON]:
    """Parts with links to shared files; names only if files are not shared."""
    for number, part in enumerate(parts):
        if not is_file(part):
            yield {name: value for name, value in part.items() if name != "metadata"}
            continue
        named: JSON = {name: part[name] for name in ("filename", "mediaType") if name in part}
        address = reverse("api:shared-file", args=[token, branch.context.pk, kind, index, number])
        link = part.get("url", settings.PUBLIC_BASE_URL + address)
        yield {**named, "url": link} if snapshot.share.with_artifacts else named


urlpatterns = [
    path("sessions/<uuid:session>/shares", Shares.as_view(), name="shares"),
    path("sessions/<uuid:session>/shares/<uuid:share>", OneShare.as_view(), name="share"),
    path("shared/<str:token>", Shared.as_view(), name="shared"),
    path(
        "shared/<str:token>/files/<uuid:branch>/<str:kind>/<int:index>/<int:number>",
        SharedFile.as_view(),
        name="shared-file",
    ),
]
