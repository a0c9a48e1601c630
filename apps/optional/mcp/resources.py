"""Resources: the parts of delivered artifacts, of all tasks that the caller may see."""

from __future__ import annotations

import re
import uuid
from base64 import b64encode
from contextlib import suppress
from urllib.parse import quote, unquote

import mcp_types as types
from mcp_types import jsonrpc

from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.doors.links import link_to
from apps.doors.turns import File
from apps.optional.mcp.protocol import RESOURCE_NOT_FOUND, Call, McpError
from apps.optional.mcp.tools import read_cursor
from apps.record import wire
from apps.record.content import blobs
from apps.record.content.parts import media_type_of, size_of
from apps.record.events import JSON
from apps.record.models import Artifact, Task
from apps.record.reading.unfinished import find_artifact

TEMPLATE = "parley://tasks/{task}/artifacts/{artifact}/{part}"
URI = re.compile(
    r"parley://tasks/(?P<task>[0-9a-f-]{36})/artifacts/(?P<artifact>[^/?#]{1,800})/(?P<part>\d{1,6})", re.ASCII
)
ARTIFACTS_PER_PAGE = 50
MAX_BYTES = 10 * 1024**2  # of one resource, in a response


def uri_of(task: uuid.UUID, artifact: str, part: int) -> str:
    return TEMPLATE.format(task=task, artifact=quote(artifact, safe=""), part=part)


def link_of(file: File) -> types.ResourceLink:
    uri = file.url or uri_of(file.task, file.artifact, file.number)
    return types.ResourceLink(uri=uri, name=file.name, mime_type=file.media_type)


def list_resources(principal: Principal, cursor: str | None) -> types.ListResourcesResult:
    """A page, newest first. Sessions in cold storage are left out. Raises McpError for a cursor of another list."""
    bound = wire.binding("mcp resources", principal.user_id, principal.workspace_id)
    rows = Artifact.objects.delivered().filter(task__in=Task.objects.visible_to(principal)).order_by("-pk")
    if cursor is not None:
        rows = rows.filter(pk__lt=read_cursor(cursor, bound))
    page = list(rows.defer("signature")[: ARTIFACTS_PER_PAGE + 1])
    shown = page[:ARTIFACTS_PER_PAGE]
    more = wire.encode_cursor([shown[-1].pk], bound) if len(page) > len(shown) else None
    found = [_resource(row, number) for row in shown for number in range(len(row.parts))]
    return types.ListResourcesResult(resources=found, next_cursor=more)


def _resource(row: Artifact, number: int) -> types.Resource:
    part = row.parts[number]
    return types.Resource(
        uri=uri_of(row.task_id, row.artifact_id, number),
        name=part.get("filename") or row.name or row.artifact_id,
        description=row.description or None,
        mime_type=_media_type(part),
        size=size_of(part),
        annotations=types.Annotations(last_modified=wire.timestamp(row.created_at)),
    )


def list_templates() -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template=TEMPLATE, name="artifact", title="Artifact", description="A part of what a task delivered."
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


def read_resource(principal: Principal, call: Call) -> types.ReadResourceResult:
    """Raises McpError: the caller has no such artifact, or it is too large."""
    uri: str = call.params.uri
    named = URI.fullmatch(uri)
    part = _find_part(principal, named["task"], unquote(named["artifact"]), int(named["part"])) if named else None
    if named is None or part is None:
        code = jsonrpc.INVALID_PARAMS if call.is_modern else RESOURCE_NOT_FOUND
        raise McpError(code, "There is no such resource.", {"uri": uri})
    task, row, stored = part
    if (size_of(stored) or 0) > MAX_BYTES:
        file = File(task.pk, row.artifact_id, int(named["part"]), stored.get("filename") or row.name, "")
        link = link_to(file, task.context_id)
        raise McpError(jsonrpc.INVALID_PARAMS, f"The resource is too large to be read here. Download it: {link}")
    return types.ReadResourceResult(contents=[_contents(uri, stored)])


def _find_part(principal: Principal, task_id: str, artifact: str, number: int) -> tuple[Task, Artifact, JSON] | None:
    with suppress(NotFound, IndexError):
        row = find_artifact(principal, task_id, artifact, delivered=True)
        return row.task, row, row.parts[number]
    return None


def _media_type(part: JSON) -> str:
    return "text/uri-list" if "url" in part else media_type_of(part)


def _contents(uri: str, stored: JSON) -> types.TextResourceContents | types.BlobResourceContents:
    media_type = _media_type(stored)
    kind = (
        stored["stored"]["kind"]
        if "stored" in stored
        else next(one for one in ("url", "raw", "text", "data") if one in stored)
    )
    if kind == "url":
        return types.TextResourceContents(uri=uri, mime_type=media_type, text=stored["url"])
    content = blobs.content_of(stored)
    if kind == "raw":
        return types.BlobResourceContents(uri=uri, mime_type=media_type, blob=b64encode(content).decode())
    return types.TextResourceContents(uri=uri, mime_type=media_type, text=content.decode())
