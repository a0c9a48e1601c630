"""Downloads of what is kept in files, for who may see the conversation."""

import re
import uuid

from django.core.files.storage import default_storage
from django.db.models import Model
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.accounts.credentials import BadCredentials, principal_of
from apps.accounts.models import User
from apps.accounts.principals import READ, Principal
from apps.conversations import blobs
from apps.conversations.models import Artifact, Context, Message

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
    """The stored part of this digest among the context's messages and delivered artifacts."""
    holders: list[Model] = [
        *Message.objects.filter(context=context, parts__icontains=sha256),
        *Artifact.objects.delivered().filter(task__context=context, parts__icontains=sha256),
    ]
    parts = (part for holder in holders for part in holder.parts)  # type: ignore[attr-defined]
    return next((part for part in parts if part.get("stored", {}).get("sha256") == sha256), None)
