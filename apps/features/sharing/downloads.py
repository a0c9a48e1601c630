"""Downloads of what is kept in files, for who may see the conversation."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from io import BufferedIOBase
from typing import cast

from django.db.models import Exists, OuterRef
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from apps.accounts.credentials import BadCredentials, principal_of
from apps.accounts.models import User
from apps.accounts.principals import READ, Principal
from apps.features.sharing.bundles import Bundle, safe_name
from apps.record import blobs, lineage, media_types
from apps.record.cold import restored_or_none
from apps.record.events import EventType
from apps.record.models import Artifact, Context, Event

MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w.+-]+=[\w.+\"-]+)*", re.ASCII)
OF_A_LINK = {"X-Robots-Tag": "noindex, nofollow", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
"""Headers of what anybody who has a link may read: it is nowhere kept, and no other site is told of it."""

PIECE = 256 * 1024  # bytes of a download that are read at once
SAFE_INLINE = ("image/png", "image/jpeg", "image/gif", "image/webp", "text/plain")
"""What a browser shows and does not run. A PDF has scripts: `web/downloads.py` takes them out where one looks at it."""


def principal_from(request: HttpRequest) -> Principal:
    """The caller by API key, or by session. Raises BadCredentials."""
    if authorization := request.headers.get("Authorization", ""):
        return principal_of(authorization)
    return request.user.principal if isinstance(request.user, User) else principal_of("")


def file(request: HttpRequest, context_id: uuid.UUID, sha256: str) -> HttpResponseBase:
    """A stored part's content. Somebody else's is not found."""
    try:
        principal = principal_from(request)
    except BadCredentials as refusal:
        return HttpResponse(
            str(refusal), status=401, content_type="text/plain", headers={"WWW-Authenticate": 'Bearer realm="parley"'}
        )
    if not principal.may(READ):
        return HttpResponse(f"This API key may not do this: it lacks the scope {READ}.", status=403)
    context = restored_or_none(Context.objects.visible_to(principal).filter(pk=context_id).first())
    part = find_part(context, sha256) if context else None
    if part is None:
        raise Http404
    return as_file(part, sha256[:12], is_download="download" in request.GET)


def as_file(part: blobs.Part, name: str, *, is_download: bool) -> FileResponse:
    """The content of a part that is no link, as a response that no browser takes for a page of ours.

    `name` is for a part that has no file name. What could run somewhere, or is not what it is said to be, is a download
    in any case.
    """
    media_type = part.get("mediaType") or ""
    if not MEDIA_TYPE.fullmatch(media_type):
        media_type = media_types.PLAIN
    media_type = media_types.believed(media_type, blobs.beginning_of(part, media_types.HEAD))
    response = FileResponse(
        blobs.opened(part),
        as_attachment=is_download or media_type not in SAFE_INLINE,
        filename=part.get("filename") or name,
        content_type=media_type,
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    return response


def streamed(response: FileResponse) -> FileResponse:
    """A file whose pieces are read off the event loop, one at a time."""
    response.streaming_content = _pieces(cast(BufferedIOBase, response.file_to_stream))
    return response


async def _pieces(file: BufferedIOBase) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, PIECE):
        yield piece


def as_zip(context: Context, bundle: Bundle) -> StreamingHttpResponse:
    """All that is bundled of a session, made while it is sent."""
    response = StreamingHttpResponse(bundle.zipped(), content_type="application/zip")
    response["Content-Disposition"] = content_disposition_header(True, f"{safe_name(str(context))}.zip") or ""
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


def find_part(context: Context, sha256: str) -> blobs.Part | None:
    """The stored part of this digest among what the context shows: messages, artifacts, and those being made."""
    found = (part for parts in _shown(context, sha256) for part in parts)
    return next((part for part in found if part.get("stored", {}).get("sha256") == sha256), None)


def _shown(context: Context, sha256: str) -> Iterator[list[blobs.Part]]:
    """The parts of all that may name the digest."""
    for message in lineage.messages(context).filter(parts__icontains=sha256):
        yield message.parts
    for artifact in lineage.artifacts(context).filter(parts__icontains=sha256):
        yield artifact.parts
    being_made = Artifact.objects.filter(
        task=OuterRef("task"), artifact_id=OuterRef("artifact_id"), state=Artifact.State.PROVISIONAL
    )
    chunks = Event.objects.filter(context=context, type=EventType.ARTIFACT_UPDATE, payload__icontains=sha256)
    for chunk in chunks.filter(Exists(being_made)):
        yield chunk.parts
