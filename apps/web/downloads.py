"""Files of a conversation: the parts of its messages and of its delivered artifacts, to download or to look at.

Whatever an agent made may be hostile: nothing of it runs in a page of ours. Pictures, PDF and plain text open in the
browser; HTML only inside a sandbox, PDF without what it would do; everything else is downloaded.
"""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from apps.features.sharing.downloads import streamed
from apps.record import blobs, lineage, media_types
from apps.record.cold import restored
from apps.record.models import Artifact, Context
from apps.web import parts
from apps.web.previews import quiet
from apps.web.previews.encodings import encoding_of
from apps.web.previews.kinds import PICTURES
from apps.web.principals import principal_of

JSON = dict[str, Any]

NOTHING = "default-src 'none'; sandbox"  # Chromium shows a PDF within that, but not within a frame's own `sandbox`
DRAWN = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox"
POLICY = {"text/html": DRAWN, "image/svg+xml": DRAWN}
PDF = "application/pdf"
MAY_OPEN = (*PICTURES, PDF, "text/html", "text/plain")


@require_safe
@login_required
def message_file(request: HttpRequest, session: uuid.UUID, index: int, number: int) -> HttpResponseBase:
    """A part of a message, as a file."""
    said = lineage.messages(context_of(request, session)).filter(index=index).first()
    return _sent(request, part_of(said.parts if said else [], number))


@require_safe
@login_required
def artifact_file(
    request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str, number: int
) -> HttpResponseBase:
    """A part of a delivered artifact, as a file; `?look` opens it in the browser where that is safe."""
    found = artifact_of(context_of(request, session), task, artifact)
    return _sent(request, part_of(parts.pieces_joined(found.parts), number), str(found))


def context_of(request: HttpRequest, session: uuid.UUID) -> Context:
    """The reader's session. Raises Http404."""
    context = Context.objects.visible_to(principal_of(request)).filter(pk=session).first()
    if context is None:
        raise Http404
    return restored(context)


def artifact_of(context: Context, task: uuid.UUID, artifact: str) -> Artifact:
    """What was delivered in a session under this id. Raises Http404."""
    delivered = lineage.artifacts(context).select_related("task__context")
    found = delivered.filter(task=task, artifact_id=artifact).first() if "\0" not in artifact else None
    if found is None:
        raise Http404
    return found


def part_of(held: list[JSON], number: int) -> JSON:
    """A part whose content is kept here. Raises Http404."""
    if number >= len(held) or "url" in held[number]:
        raise Http404
    return held[number]


def believed_type(part: JSON) -> str:
    """What the part is said to be, unless its content says otherwise."""
    said = parts.media_type_of(part)
    return said if "url" in part else media_types.believed(said, blobs.beginning_of(part, media_types.HEAD))


def _sent(request: HttpRequest, part: JSON, name: str = "") -> HttpResponseBase:
    media_type = believed_type(part)
    is_download = not ("look" in request.GET and media_type in MAY_OPEN)
    if media_type == PDF and not is_download:
        response: HttpResponseBase = _quiet(part)
    else:
        text = media_type.startswith("text/")
        response = _content(part, f"{media_type}; charset={_encoding(part)}" if text else media_type)
    named = part.get("filename") or name or "file"
    response["Content-Disposition"] = content_disposition_header(is_download, named) or ""
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = POLICY.get(media_type, NOTHING)
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    if media_type == PDF and not is_download:
        response["Cache-Control"] = "private, no-cache"  # of what is taken out of it more may be known tomorrow
    return response


def _quiet(part: JSON) -> HttpResponse:
    """A PDF that does nothing; a sentence in its place where that cannot be made."""
    if part.get("stored", {}).get("size", 0) > quiet.MOST_BYTES:
        return _cannot_be_shown()
    try:
        return HttpResponse(quiet.quieted(blobs.content_of(part)), PDF)
    except quiet.CannotBeShown:
        return _cannot_be_shown()


def _cannot_be_shown() -> HttpResponse:
    sentence = str(quiet.CannotBeShown.__doc__)
    return HttpResponse(sentence, "text/plain; charset=utf-8", HTTPStatus.UNPROCESSABLE_ENTITY)


def _encoding(part: JSON) -> str:
    head = blobs.beginning_of(part, media_types.HEAD)
    return encoding_of(head, str(part.get("mediaType", "")), is_cut=len(head) == media_types.HEAD)


def _content(part: JSON, content_type: str) -> HttpResponseBase:
    """A part's content: what is kept in a file is read while it is sent."""
    if "stored" not in part:
        return HttpResponse(blobs.content_of(part), content_type=content_type)
    return streamed(FileResponse(blobs.opened(part), content_type=content_type))
