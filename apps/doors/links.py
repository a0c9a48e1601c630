"""Links to delivered files, for clients that cannot send a key with a download. Valid for a while."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.core import signing
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from apps.conversations.public_links.downloads import (
    LINK_HEADERS,
    SAFE_INLINE,
    file_response,
    safe_name,
    stream_response,
)
from apps.doors.turns import File
from apps.record.events import JSON
from apps.record.models import Artifact
from apps.record.reading.lookup import restore_by_id
from parley import db

SALT = "apps.doors.links"
IMAGES = tuple(one for one in SAFE_INLINE if one.startswith("image/"))
MARKUP = "[]\\`*_<>"


def link_to(file: File, context: uuid.UUID) -> str:
    """An absolute URL; a part that is a link already keeps its own."""
    if file.url:
        return file.url
    signed = signing.dumps([context.hex, file.task.hex, file.artifact, file.number], salt=SALT)
    return f"{settings.PUBLIC_BASE_URL}{reverse('door-file', args=[signed, safe_name(file.name)])}"


def markdown_link(file: File, context: uuid.UUID) -> str:
    """A paragraph with the link; an image is shown."""
    name = "".join(f"\\{one}" if one in MARKUP else one for one in " ".join(file.name.split()))
    return f"\n\n{'!' if file.media_type in IMAGES else ''}[{name}]({link_to(file, context)})"


async def linked_file(request: HttpRequest, signed: str, filename: str) -> HttpResponseBase:
    """The file behind a link; 404 if the link is invalid or too old, or the session was deleted."""
    part = await db.run(_find_part, signed)
    if part is None:
        raise Http404
    response = await db.run(file_response, part, "file", is_download="download" in request.GET)
    for name, value in LINK_HEADERS.items():
        response[name] = value
    return stream_response(response)


def _find_part(signed: str) -> JSON | None:
    try:
        context, task, artifact, number = signing.loads(signed, salt=SALT, max_age=settings.FILE_LINK_SECONDS)
    except signing.BadSignature:
        return None
    delivered = Artifact.objects.filter(
        task__context=context, task=task, artifact_id=artifact, state=Artifact.State.DELIVERED
    )
    row = delivered.first() or (restore_by_id(uuid.UUID(context)) and delivered.first())
    return row.parts[number] if row and number < len(row.parts) else None
