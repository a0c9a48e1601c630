"""Downloads of what is kept in files, for who may see the conversation."""

import re
import uuid
from collections.abc import Iterator

from django.core.files.storage import default_storage
from django.db.models import Exists, OuterRef
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.accounts.credentials import BadCredentials, principal_of
from apps.accounts.models import User
from apps.accounts.principals import READ, Principal
from apps.conversations import blobs
from apps.conversations.events import EventType
from apps.conversations.models import Artifact, Context, Event, Message

MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w.+-]+=[\w.+\"-]+)*", re.ASCII)
SAFE_INLINE = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/plain")


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
    context = Context.objects.visible_to(principal).filter(pk=context_id).first()
    part = find_part(context, sha256) if context else None
    if part is None:
        raise Http404
    media_type = part.get("mediaType") or ""
    if not MEDIA_TYPE.fullmatch(media_type):
        media_type = "application/octet-stream"
    response = FileResponse(
        default_storage.open(blobs.path_of(sha256)),
        as_attachment=media_type not in SAFE_INLINE or "download" in request.GET,
        filename=part.get("filename") or sha256[:12],
        content_type=media_type,
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    return response


def find_part(context: Context, sha256: str) -> blobs.Part | None:
    """The stored part of this digest among what the context shows: messages, artifacts, and those being made."""
    found = (part for parts in _shown(context, sha256) for part in parts)
    return next((part for part in found if part.get("stored", {}).get("sha256") == sha256), None)


def _shown(context: Context, sha256: str) -> Iterator[list[blobs.Part]]:
    """The parts of all that may name the digest."""
    for message in Message.objects.filter(context=context, parts__icontains=sha256):
        yield message.parts
    for artifact in Artifact.objects.delivered().filter(task__context=context, parts__icontains=sha256):
        yield artifact.parts
    being_made = Artifact.objects.filter(
        task=OuterRef("task"), artifact_id=OuterRef("artifact_id"), state=Artifact.State.PROVISIONAL
    )
    chunks = Event.objects.filter(context=context, type=EventType.ARTIFACT_UPDATE, payload__icontains=sha256)
    for chunk in chunks.filter(Exists(being_made)):
        yield chunk.parts
