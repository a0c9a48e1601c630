"""Exporting a session or all data of the account, and importing conversations of other programs."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import Any

from django.db.models import QuerySet
from django.http import FileResponse, HttpResponse
from django.urls import path
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.audit_models import AuditAction
from apps.accounts.requests import quotas
from apps.api.framework.resources import ModelShape, ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Query, Shape
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON, messages_json
from apps.conversations.api.sessions import SessionSelection, usable_agent, whole_session
from apps.conversations.public_links import downloads
from apps.conversations.public_links.transcripts import markdown_of
from apps.conversations.uploads import resumable
from apps.optional.transfers import exports
from apps.optional.transfers.formats import (
    EXPORT_FORMAT,
    EXPORT_VERSION,
    FORMATS,
    MAX_CONVERSATIONS,
    SKIPPED_WORDS,
    Skip,
)
from apps.optional.transfers.importing import Import, Outcome, import_file, preview
from apps.optional.transfers.models import Export
from apps.record import lineage
from apps.record.content import blobs
from apps.record.models import Context, Message
from apps.record.reading.lookup import find_session
from parley import db

MAX_EVENTS = 100_000  # of an exported session
MEDIA_TYPES = {"json": "application/json", "markdown": "text/markdown; charset=utf-8", "openai": "application/json"}
ENDINGS = {"json": ".json", "markdown": ".md", "openai": ".openai.json"}


class Exporting(Query):
    format = Choice(
        [
            ("json", "everything; can be imported again"),
            ("markdown", "a transcript"),
            ("openai", "messages for OpenAI's chat completions"),
        ],
        default="json",
    )


class SessionExport(Endpoint):
    @documented(
        "sessions_export",
        "Export a session as JSON, Markdown or OpenAI messages",
        query=Exporting,
        answers={(200, "application/json"): OpenApiTypes.ANY, (200, "text/markdown"): OpenApiTypes.STR},
    )
    def get(self, request: Request, session: uuid.UUID) -> HttpResponse:
        """JSON has the session, its messages, tasks and artifacts, and at most 100,000 events. Files are links. OpenAI
        messages are an array of `role` and `content`, with the agents' tool calls and their results.
        """
        form = self.query(Exporting)["format"]
        context = find_session(self.principal, session)
        text = markdown_of(context) if form == "markdown" else _pretty(_exported(context, form))
        action = AuditAction.TRANSCRIPT_EXPORTED
        downloads.record_download(action, context, request._request, self.principal)
        name = (slugify(str(context), allow_unicode=True)[:60] or "session") + ENDINGS[form]
        response = HttpResponse(text, content_type=MEDIA_TYPES[form])
        response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=name)
        response["X-Content-Type-Options"] = "nosniff"
        return response


def _pretty(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _exported(context: Context, form: str) -> JSON | list[JSON]:
    if form == "openai":
        said = messages_json(context, list(lineage.messages(context).order_by("index")))
        return [one for message in said for one in openai_messages(message)]
    about: JSON = {"format": EXPORT_FORMAT, "version": EXPORT_VERSION}
    return about | whole_session(context, SessionSelection(most=MAX_EVENTS))


def openai_messages(message: JSON) -> list[JSON]:
    """A message (`messages_json`) in OpenAI's chat format; an agent's comes after its tool calls and their results."""
    words = "\n\n".join(_part_text(part) for part in message["parts"])
    if message["role"] == Message.Role.USER:
        return [{"role": "user", "content": words}]
    spoken: JSON = {"role": "assistant", "content": words}
    calls: list[JSON] = message["metadata"]["toolCalls"]
    if not calls:
        return [spoken]
    results = [{"role": "tool", "tool_call_id": call["callId"], "content": _as_text(call["result"])} for call in calls]
    return [
        {"role": "assistant", "content": None, "tool_calls": [_openai_call(one) for one in calls]},
        *results,
        spoken,
    ]


def _openai_call(call: JSON) -> JSON:
    function = {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
    return {"id": call["callId"], "type": "function", "function": function}


def _part_text(part: JSON) -> str:
    if "text" in part:
        return str(part["text"])
    if "data" in part:
        return _as_text(part["data"])
    name = part.get("filename") or "file"
    return f"[{name}]({part['url']})" if "url" in part else f"[{name}]"


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Importing(Body):
    agent = Line(help_text="The slug of the agent that receives new messages in the imported sessions.")
    upload_id = serializers.UUIDField(
        help_text="The id of one of your complete uploads: "
        + "; ".join(f"{one.name}: {one.files}" for one in FORMATS)
        + "."
    )
    dry_run = serializers.BooleanField(
        default=False, help_text="Say what an import would do, and import nothing. `remaining` is 0."
    )
    only = serializers.ListField(
        child=Line(),
        default=None,
        allow_null=True,
        max_length=MAX_CONVERSATIONS,
        help_text="The `key`s of the conversations to import. Without it, all are imported.",
    )


@extend_schema_serializer(component_name="ImportSkipped")
class SkippedShape(Shape):
    """What new sessions did not get."""

    reason = serializers.ChoiceField([(one.value, SKIPPED_WORDS[one]) for one in Skip])
    count = serializers.IntegerField()


@extend_schema_serializer(component_name="ImportResult")
class ResultShape(Shape):
    """What became of one conversation of the file."""

    title = serializers.CharField()
    outcome = serializers.ChoiceField(Outcome.choices)
    session_id = serializers.UUIDField(source="session", allow_null=True)
    problem = serializers.CharField(help_text="Why the conversation was skipped. Empty if it was not.")
    messages = serializers.IntegerField(help_text="The number of messages of a new session.")
    files = serializers.IntegerField(help_text="The number of its images and other files.")
    branches = serializers.IntegerField(help_text="The number of its forks.")
    skipped = SkippedShape(many=True)
    key = serializers.CharField(help_text="Names the conversation in `only`.")
    program = serializers.CharField(
        source="source", help_text="The program that it comes from. Empty if that is unknown."
    )
    began_at = serializers.DateTimeField(allow_null=True, help_text="Of its first message there.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="Of its last message there.")


@extend_schema_serializer(component_name="Import")
class ImportShape(Shape):
    """The totals are those of the new sessions, or of those that would be new."""

    results = ResultShape(many=True)
    sessions = serializers.IntegerField()
    messages = serializers.IntegerField()
    files = serializers.IntegerField()
    branches = serializers.IntegerField()
    skipped = SkippedShape(many=True)
    unread = serializers.ListField(
        child=serializers.CharField(), help_text="Other documents in the ZIP file, at most 20. They are not imported."
    )
    remaining = serializers.IntegerField(
        help_text="The number of conversations that are left. Send the same request again to import the next."
    )


class Imports(Endpoint):
    @documented(
        "imports_create",
        "Import conversations as sessions",
        body=Importing,
        answers={200: ImportShape},
        refuses=[404, 409, 413],
        examples=[OpenApiExample("Import", {"agent": "echo", "uploadId": str(uuid.UUID(int=1))}, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        """No agent is called. A conversation that was imported before keeps its session. One request creates at most
        200 sessions. They have the dates of their conversations, and their branches are forks. With `dryRun`, the
        conversations to import are `ready`.
        """
        asked = self.body(Importing)
        quotas.count_act(self.principal)
        agent = usable_agent(self.principal, asked["agent"])
        part = resumable.message_part(self.principal, asked["upload_id"])
        with blobs.open_content(part) as file:
            if asked["dry_run"]:
                return Response(import_json(preview(self.principal, file)))
            is_wanted = (lambda _: True) if asked["only"] is None else set(asked["only"]).__contains__
            return Response(import_json(import_file(self.principal, agent, file, is_wanted=is_wanted)))


def import_json(done: Import) -> JSON:
    results = []
    for one in done.results:
        began, ended = one.dates or (None, None)
        results.append(ResultShape.json_of(one, skipped=_skipped_json(one.skipped), began_at=began, ended_at=ended))
    totals = {"sessions": len(done.new), "messages": done.messages, "files": done.files, "branches": done.branches}
    about = {"skipped": _skipped_json(done.skipped), "unread": list(done.unread), "remaining": done.remaining}
    return {"results": results, **totals, **about}


def _skipped_json(skipped: Counter[Skip]) -> list[JSON]:
    return [{"reason": reason.value, "count": number} for reason, number in sorted(skipped.items())]


@extend_schema_serializer(component_name="Export")
class ExportShape(ModelShape):
    """An archive of all data of your account. A worker makes it."""

    state = serializers.ChoiceField([one for one in Export.State.choices if one[0] != Export.State.DELETED])
    sessions = serializers.IntegerField(help_text="The number of sessions that the archive gets.")
    sessions_done = serializers.IntegerField(help_text="The number of sessions that are in it so far.")
    size = serializers.IntegerField(help_text="The size of the file in bytes. 0 until it is complete.")

    class Meta:
        model = Export
        fields = (
            "id", "state", "sessions", "sessions_done", "size", "problem", "created_at", "finished_at", "expires_at",
        )  # fmt: skip


class Exports(ResourceViewSet):
    resource = exports.EXPORTS
    title, usual = "an export", ("list", "create", "retrieve")
    shape = ExportShape

    @documented("exports_create", "Start an export of all your data", answers={202: ExportShape}, refuses=[409])
    def create(self, request: Request) -> Response:
        """At most one export is made at a time, and 10 in a day. A complete export replaces the earlier one. The API
        key must be of your personal workspace, with all scopes and for all agents.
        """
        quotas.count_act(self.principal)
        made = exports.start(self.principal)
        exports.EXPORTS_TO_MAKE.publish(made.pk)
        return Response(self.shown(ExportShape, made), status=202)

    def listed(self, rows: QuerySet[Any], shape: type[Shape]) -> Response:
        exports.check_whole_account(self.principal)
        return super().listed(rows, shape)

    def find(self, **key: Any) -> Export:
        return exports.find(self.principal, key["export"])


class ExportFile(Endpoint):
    @documented(
        "exports_download",
        "Download an export as a ZIP file",
        answers={
            (200, "application/zip"): OpenApiTypes.BINARY,
            (206, "application/zip"): OpenApiTypes.BINARY,
            416: None,
        },
        refuses=[409],
    )
    async def get(self, request: Request, export: uuid.UUID) -> FileResponse:
        """`Range` with one range of bytes continues a download that was cut off, and `If-Range` with its `ETag` makes
        sure that it is the same file.
        """

        def opened() -> FileResponse:
            return exports.download(self.principal, exports.find(self.principal, export), request._request)

        return await db.run(opened)


urlpatterns = [
    *Exports.urls(),
    path("exports/<uuid:export>/file", ExportFile.as_view(), name="export-file"),
    path("sessions/<uuid:session>/export", SessionExport.as_view(), name="session-export"),
    path("imports", Imports.as_view(), name="imports"),
]
