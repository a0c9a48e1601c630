"""Pictures in agents' Markdown: those of the session at once, those of other hosts when a reader asks.

The reader's browser never calls the other host: Parley fetches a copy, and only of an address that it signed for this
session or link when it drew the text.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from urllib.parse import quote, urljoin

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.conversations.pages.previews.files import PICTURE_TYPES
from apps.record import lineage
from apps.record.content import blobs, parts
from apps.record.content.rendering import Surroundings, file_name_of
from apps.record.events import JSON
from apps.record.models import Artifact, Context
from apps.web.shell import reader_view, session_or_404
from parley import db, outbound

LIMITS = outbound.Limits(seconds=15, bytes=8_000_000)
MOST_REDIRECTS = 3
MOST_SEARCHED = 300  # artifacts, and messages, of a session
EMBEDDED_BYTES = 2_000_000  # of the pictures of an HTML page
COPY_CSP = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"  # styles are for SVG
SALT = "picture of another host"
SOURCE = re.compile(r"(<img\b[^>]*?\ssrc\s*=\s*)([\"'])([^\"'<>]{1,200})\2", re.IGNORECASE)


def surroundings_in(session: uuid.UUID, key: str, task: uuid.UUID | None = None) -> Surroundings:
    """A text on the pages of a session. `key` is unique there; the pictures of `task` are meant first."""
    first = f"?task={task}" if task else ""
    return Surroundings(
        key,
        lambda name: reverse("web:picture", args=[session, name]) + first,
        remote_pictures(str(session), reverse("web:remote-picture", args=[session])),
    )


def remote_pictures(scope: str, address: str) -> Callable[[str], str]:
    """The URL of a copy by the picture's; "" if an operator switched copies off.

    `scope` is what the reader must be able to see, `address` the view that fetches.
    """

    def copy_address(url: str) -> str:
        if not settings.REMOTE_PICTURES:
            return ""
        return f"{address}?of={quote(signing.dumps([scope, url], salt=SALT, compress=True))}"

    return copy_address


def signed_address(request: HttpRequest, scope: str) -> str:
    """The address that was signed for this scope. Raises Http404."""
    try:
        found, url = signing.loads(request.GET.get("of", ""), salt=SALT)
    except (signing.BadSignature, ValueError):
        raise Http404 from None
    if found != scope or not settings.REMOTE_PICTURES:
        raise Http404
    return str(url)


@reader_view
def picture(request: HttpRequest, session: uuid.UUID, name: str) -> HttpResponse:
    """Redirects to the session's newest picture with this file name; those of `?task` come first."""
    context = session_or_404(request, session)
    address = _of_artifacts(context, name, request.GET.get("task", "")) or _of_messages(context, name)
    if not address:
        raise Http404
    response = redirect(f"{address}?look")
    response["Cache-Control"] = "private, max-age=60"  # a later turn may make a newer one
    return response


def _of_artifacts(context: Context, name: str, task: str) -> str:
    newest = lineage.artifacts(context).order_by("-first_event")[:MOST_SEARCHED]
    for row in sorted(newest, key=lambda row: str(row.task_id) != task):
        for number, part in enumerate(parts.pieces_joined(row.parts)):
            if is_picture_named(part, name, row.name):
                return reverse("web:artifact-file", args=[context.pk, row.task_id, row.artifact_id, number])
    return ""


def _of_messages(context: Context, name: str) -> str:
    for said in lineage.messages(context).order_by("-index")[:MOST_SEARCHED]:
        for number, part in enumerate(said.parts):
            if is_picture_named(part, name):
                return reverse("web:message-file", args=[context.pk, said.index, number])
    return ""


def is_picture_named(part: JSON, name: str, artifact: str = "") -> bool:
    """Is it a picture with this file name, or of an artifact with this name?"""
    return name in (part.get("filename"), artifact) and "url" not in part and parts.media_type_of(part) in PICTURE_TYPES


@require_safe
@login_required
async def remote_picture(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """A copy of another host's picture, for whoever may read the session."""
    await db.run(session_or_404, request, session)
    return await copy_of(signed_address(request, str(session)))


async def copy_of(url: str) -> HttpResponse:
    """The picture at a URL as a file that runs nothing; a sentence if there is none."""
    try:
        content, media_type = await _fetch(url)
    except outbound.OutboundError as problem:
        return _no_picture(str(problem))
    if media_type not in PICTURE_TYPES:
        return _no_picture("There is no picture at this address.")
    response = HttpResponse(content, content_type=media_type)
    response["Cache-Control"] = "private, max-age=86400"
    return _harmless(response)


def _no_picture(sentence: str) -> HttpResponse:
    return _harmless(HttpResponse(sentence, "text/plain; charset=utf-8", HTTPStatus.BAD_GATEWAY))


def _harmless(response: HttpResponse) -> HttpResponse:
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = COPY_CSP
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    return response


async def _fetch(url: str) -> tuple[bytes, str]:
    """The content at a URL and its verified media type. Raises OutboundError."""
    async with outbound.exchange(LIMITS) as way:
        for left in range(MOST_REDIRECTS, -1, -1):
            try:
                async with way.send("GET", url, {"Accept": "image/*"}) as answer:
                    content = await answer.read()
                    said = {name.lower(): value for name, value in answer.headers}.get(b"content-type", b"")
                    is_there = answer.status == HTTPStatus.OK
            except outbound.Redirected as elsewhere:
                if not left:
                    raise
                url = urljoin(url, elsewhere.location)
            else:
                essence = said.decode("latin-1").partition(";")[0].strip().lower()
                head = content[: parts.HEAD_BYTES]
                return content, parts.verified_media_type(essence, head) if is_there and content else ""
    raise AssertionError  # the last redirect is raised


def with_embedded_pictures(html: str, siblings: Iterable[Artifact]) -> str:
    """A page whose `<img src="name">` are pictures of the same task: its frame can load nothing else."""
    named = {
        part.get("filename") or row.name: part
        for row in siblings
        for part in parts.pieces_joined(row.parts)
        if is_picture_named(part, part.get("filename") or row.name, row.name)
    }
    left = EMBEDDED_BYTES

    def embedded(found: re.Match[str]) -> str:
        nonlocal left
        part = named.get(file_name_of(found[3]))
        size = parts.size_of(part) or 0 if part else 0
        if part is None or size > left:
            return found[0]
        left -= size
        return f"{found[1]}{found[2]}{_data_url(part)}{found[2]}"

    return SOURCE.sub(embedded, html) if named else html


def _data_url(part: Mapping[str, object]) -> str:
    content = base64.b64encode(blobs.content_of(dict(part))).decode()
    return f"data:{parts.media_type_of(dict(part))};base64,{content}"
