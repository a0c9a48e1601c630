"""Files of a conversation: the parts of its messages and of its delivered artifacts, to download or to look at.

Whatever an agent made may be hostile: nothing of it runs in a page of ours. Pictures, PDF and plain text open in the
browser; HTML only inside a sandbox; everything else is downloaded.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from apps.conversations import blobs
from apps.conversations.models import Artifact, Context, Message
from apps.web import parts, prose
from apps.web.principals import principal_of

JSON = dict[str, Any]

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml")
TEXTS = ("application/json", "application/xml", "application/yaml", "application/x-sh", "application/javascript")
NOTHING = "default-src 'none'; sandbox"
DRAWN = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox"
# A sandbox would keep the browser's own PDF viewer from opening; a PDF has no origin whose rights it could use.
PAGED = "default-src 'none'; object-src 'self'; plugin-types application/pdf; style-src 'unsafe-inline'; img-src data:"
POLICY = {"application/pdf": PAGED, "text/html": DRAWN, "image/svg+xml": DRAWN}
LONGEST_PREVIEW = 500_000  # bytes of text that a preview shows


@require_safe
@login_required
def message_file(request: HttpRequest, session: uuid.UUID, index: int, number: int) -> HttpResponse:
    """A part of a message, as a file."""
    said = Message.objects.filter(context=_context(request, session), index=index).first()
    return _sent(request, _part(said.parts if said else [], number))


@require_safe
@login_required
def artifact_file(
    request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str, number: int
) -> HttpResponse:
    """A part of a delivered artifact, as a file; `?look` opens it in the browser where that is safe."""
    return _sent(request, *_artifact_part(request, session, task, artifact, number))


@require_safe
@login_required
def artifact_preview(
    request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str, number: int
) -> HttpResponse:
    """A look at a part of a delivered artifact, as a fragment for the page."""
    part, name = _artifact_part(request, session, task, artifact, number)
    media_type = parts.media_type_of(part)
    look = {"address": f"{request.path.removesuffix('/preview')}?look", "name": name}
    if media_type in PICTURES:
        kind = "picture"
    elif media_type == "application/pdf":
        kind = "paged"
    elif media_type == "text/html":
        kind = "framed"
    elif html := _text_preview(part, name, media_type):
        kind, look = "text", {"html": html, **look}
    else:
        kind = "none"
    return render(request, "web/_preview.html", {"kind": kind, **look})


def _text_preview(part: JSON, name: str, media_type: str) -> str:
    """The part's text as safe HTML; nothing where it is no text."""
    if not (media_type.startswith("text/") or media_type in TEXTS or media_type.endswith("+json")):
        return ""
    if "url" in part:
        return ""
    text = blobs.content_of(part)[:LONGEST_PREVIEW].decode(errors="replace")
    if media_type == "text/markdown":
        return prose.laid_out(text)
    if "data" in part:
        return prose.coloured(prose.json_text(part["data"]), "json")
    return prose.coloured(text, _language(name) if media_type != "text/plain" or "." in name else "")


def _language(name: str) -> str:
    try:
        aliases = get_lexer_for_filename(name).aliases
    except ClassNotFound:
        return ""
    return aliases[0] if aliases else ""


def _context(request: HttpRequest, session: uuid.UUID) -> Context:
    context = Context.objects.visible_to(principal_of(request)).filter(pk=session).first()
    if context is None:
        raise Http404
    return context


def _artifact_part(
    request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str, number: int
) -> tuple[JSON, str]:
    context = _context(request, session)
    found = Artifact.objects.delivered().filter(task__context=context, task=task, artifact_id=artifact).first()
    part = _part(parts.pieces_joined(found.parts) if found else [], number)
    name = part.get("filename") or (found.name if found else "") or artifact
    return part, name


def _part(held: list[JSON], number: int) -> JSON:
    if number >= len(held) or "url" in held[number]:
        raise Http404
    return held[number]


def _sent(request: HttpRequest, part: JSON, name: str = "") -> HttpResponse:
    media_type = parts.media_type_of(part)
    may_open = media_type in (*PICTURES, "application/pdf", "text/html", "text/plain")
    text = media_type.startswith("text/") and "charset" not in media_type
    response = HttpResponse(blobs.content_of(part), content_type=f"{media_type}; charset=utf-8" if text else media_type)
    is_download = not ("look" in request.GET and may_open)
    response["Content-Disposition"] = (
        content_disposition_header(is_download, part.get("filename") or name or "file") or ""
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = POLICY.get(media_type, NOTHING)
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    return response
