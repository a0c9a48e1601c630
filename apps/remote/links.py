"""Links by which a remote agent fetches a file that it was sent, and nothing else, without signing in.

A link names a part of a run's snapshot; it is signed, so that nobody can make another of it.
"""

from __future__ import annotations

import time
import uuid
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse

from apps.features.sharing.downloads import MEDIA_TYPE
from apps.record import blobs
from apps.record.models import Run

SALT = "apps.remote.links"


def link(run: object, number: int, until: int, filename: str) -> str:
    """The URL of the part of this number, good until a Unix time. The same for the same part."""
    named = signing.Signer(salt=SALT).sign(f"{run}.{number}.{until}")
    return f"{settings.PUBLIC_BASE_URL}/gateway/files/{named}/{quote(filename, safe='') or 'file'}"


def linked_file(request: HttpRequest, named: str, filename: str) -> HttpResponse:
    """The content behind a link; not found where it is no link of ours, is too old, or its conversation was cleared."""
    part = _part(named)
    if part is None:
        raise Http404
    media_type = part.get("mediaType") or ""
    if not MEDIA_TYPE.fullmatch(media_type):
        media_type = "application/octet-stream"
    response = HttpResponse(blobs.content_of(part), content_type=media_type)
    response["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(part.get('filename') or 'file', safe='')}"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cache-Control"] = "private, no-store"
    return response


def _part(named: str) -> dict[str, Any] | None:
    try:
        run, number, until = signing.Signer(salt=SALT).unsign(named).split(".")
    except (signing.BadSignature, ValueError):
        return None
    if int(until) < time.time():
        return None
    given = Run.objects.filter(pk=uuid.UUID(run)).values_list("input", flat=True).first() or {}
    parts: list[dict[str, Any]] = given.get("sent", {}).get("message", {}).get("parts", [])
    return parts[int(number)] if int(number) < len(parts) else None
