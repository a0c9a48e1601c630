"""Exporting a session as JSON, Markdown or OpenAI messages, and importing conversations of other programs."""

from __future__ import annotations

import json
import uuid

from django.http import HttpResponse
from django.urls import path
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import quotas
from apps.accounts.audit_models import AuditAction
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Query, Shape
from apps.api.framework.views import Endpoint
from apps.api.messages import find_session
from apps.api.sessions import SessionSelection, usable_agent, whole_session
from apps.api.shapes import JSON, messages_json
from apps.features.imports.formats import EXPORT_FORMAT, EXPORT_VERSION, MAX_FILE_BYTES
from apps.features.imports.importing import Import, Outcome, import_file
from apps.features.sharing import downloads
from apps.features.sharing.transcripts import markdown_of
from apps.features.uploads import resumable
from apps.record import lineage
from apps.record.content import blobs
from apps.record.errors import FileTooLarge
from apps.record.lookup import restored
from apps.record.models import Context, Message

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
        context = restored(find_session(self.principal, session))
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
        help_text="The id of one of your complete uploads: ChatGPT's `conversations.json` or ZIP file, Open WebUI's "
        "exported chats, or a session that Parley exported as JSON."
    )


@extend_schema_serializer(component_name="ImportResult")
class ResultShape(Shape):
    """What became of one conversation of the file."""

    title = serializers.CharField()
    outcome = serializers.ChoiceField(Outcome.choices)
    session_id = serializers.UUIDField(allow_null=True)
    problem = serializers.CharField(help_text="Why the conversation was skipped. Empty if it was not.")


@extend_schema_serializer(component_name="Import")
class ImportShape(Shape):
    results = ResultShape(many=True)
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
        200 sessions.
        """
        asked = self.body(Importing)
        quotas.count_act(self.principal)
        agent = usable_agent(self.principal, asked["agent"])
        part = resumable.message_part(self.principal, asked["upload_id"])
        with blobs.open_content(part) as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise FileTooLarge(f"An imported file may have {MAX_FILE_BYTES // 1024**2} MB. Split it.")
        return Response(import_json(import_file(self.principal, agent, content)))


def import_json(done: Import) -> JSON:
    results = [
        {
            "title": one.title,
            "outcome": one.outcome,
            "sessionId": str(one.session) if one.session else None,
            "problem": one.problem,
        }
        for one in done.results
    ]
    return {"results": results, "remaining": done.remaining}


urlpatterns = [
    path("sessions/<uuid:session>/export", SessionExport.as_view(), name="session-export"),
    path("imports", Imports.as_view(), name="imports"),
]
