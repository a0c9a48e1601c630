"""Downloads for people who may see the session: one part, or all files that a session delivered, as a ZIP."""

from __future__ import annotations

import asyncio
import datetime
import io
import mimetypes
import re
import unicodedata
import uuid
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import batched
from pathlib import PurePosixPath
from typing import cast

from django.db.models import Exists, OuterRef
from django.http import FileResponse, Http404, HttpRequest, HttpResponseNotFound, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.http import content_disposition_header

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.principals import ANONYMOUS, READ, Principal
from apps.accounts.refusals import refusals
from apps.accounts.requests.authentication import BadCredentials, api_key_principal
from apps.record import lineage
from apps.record.content import blobs, parts
from apps.record.content.parts import media_type_of, pieces_joined
from apps.record.error_table import plain_response
from apps.record.errors import MissingRole, MissingScope, check_allowed
from apps.record.events import JSON, EventType
from apps.record.lineage import number_versions
from apps.record.models import Artifact, Context, Event
from apps.record.reading import unfinished
from apps.record.reading.lookup import find_session
from parley import db

MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w.+-]+=[\w.+\"-]+)*", re.ASCII)
LINK_HEADERS = {"X-Robots-Tag": "noindex, nofollow", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
"""Headers of what anybody with a link may read: nobody keeps it, and no other site learns of it."""

READ_BYTES = 256 * 1024
BYTE_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})(?<!=-)", re.ASCII)
SAFE_INLINE = ("image/png", "image/jpeg", "image/gif", "image/webp", "text/plain")
"""What a browser shows and does not run. A PDF may hold scripts: `previews/pdf.py` removes them for viewing."""
ARTIFACTS_AT_ONCE = 10
EARLIEST_YEAR = 1980  # the first year that a ZIP can represent
RESERVED_NAME = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
FORBIDDEN_CHARACTERS = re.compile(r'[<>:"|?*/\\]')


def principal_from(request: HttpRequest) -> Principal:
    if authorization := request.headers.get("Authorization", ""):
        return api_key_principal(authorization, request)
    return request.user.principal if isinstance(request.user, User) else ANONYMOUS


def record_download(
    action: AuditAction, context: Context, request: HttpRequest, principal: Principal | None = None
) -> None:
    subject = audit.session_subject(context.pk)
    audit.record(action, actor=principal, object=subject, workspace=context.workspace_id, request=request)


def file_view(request: HttpRequest, context_id: uuid.UUID, sha256: str) -> HttpResponseBase:
    """A stored part's content. Another person's is not found."""
    try:
        principal = principal_from(request)
    except BadCredentials as refusal:
        refusals.count_key(request.headers.get("Authorization", ""), request, refusal.reason)
        return plain_response(refusal)
    try:
        check_allowed(principal, READ)
    except (MissingScope, MissingRole) as refused:
        return plain_response(refused)
    part = find_part(find_session(principal, context_id), sha256)
    if part is None:
        raise Http404
    try:
        return file_response(part, sha256[:12], is_download="download" in request.GET)
    except FileNotFoundError:
        lost = "The file is lost. Ask an operator to restore it from a backup."
        return HttpResponseNotFound(lost, content_type="text/plain; charset=utf-8")


def file_response(part: blobs.Part, name: str, *, is_download: bool) -> FileResponse:
    """The content of a part that is not a link, as a response that browsers never treat as our page.

    `name` is for a part without a file name. Content that a browser could run, or whose type is wrong, is always a
    download.
    """
    media_type = part.get("mediaType") or ""
    if not MEDIA_TYPE.fullmatch(media_type):
        media_type = parts.OCTET_STREAM
    media_type = parts.verified_media_type(media_type, blobs.head_of(part, parts.HEAD_BYTES))
    response = FileResponse(
        blobs.open_content(part),
        as_attachment=is_download or media_type not in SAFE_INLINE,
        filename=part.get("filename") or name,
        content_type=media_type,
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox; frame-ancestors 'none'"
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    return response


def stream_response(response: FileResponse, length: int | None = None) -> FileResponse:
    """Send the file from where it is, or `length` bytes of it, without holding a thread."""
    response.streaming_content = _pieces(cast(BufferedIOBase, response.file_to_stream), length)
    return response


async def _pieces(file: BufferedIOBase, left: int | None) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, READ_BYTES if left is None else min(left, READ_BYTES)):
        left = None if left is None else left - len(piece)
        yield piece


def resumable_response(response: FileResponse, version: str, request: HttpRequest) -> FileResponse:
    """Stream a file, or the one range of bytes that is asked for, so that a download can go on (RFC 9110 §14).

    `version` changes with the content. Other ranges get the whole file, and one behind its end gets 416.
    """
    size = int(response["Content-Length"])
    response["Accept-Ranges"], response["ETag"] = "bytes", f'"{version}"'
    found = BYTE_RANGE.fullmatch(request.headers.get("Range", ""))
    if found is None or request.headers.get("If-Range", response["ETag"]) != response["ETag"]:
        return stream_response(response)
    first, last = (int(one) if one else None for one in found.groups())
    if first is None:
        first, last = max(0, size - (last or 0)), None
    end = size if last is None else min(last + 1, size)
    response.status_code = 206 if first < end else 416
    length = max(0, end - first)
    response["Content-Range"] = f"bytes {first}-{end - 1}/{size}" if length else f"bytes */{size}"
    response["Content-Length"] = str(length)
    cast(BufferedIOBase, response.file_to_stream).seek(first)
    return stream_response(response, length)


def zip_response(context: Context, bundle: Bundle) -> StreamingHttpResponse:
    response = StreamingHttpResponse(bundle.zipped(), content_type="application/zip")
    response["Content-Disposition"] = content_disposition_header(True, f"{safe_name(str(context))}.zip") or ""
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


def find_part(context: Context, sha256: str) -> blobs.Part | None:
    found = (part for parts in _parts_naming(context, sha256) for part in parts)
    return next((part for part in found if part.get("stored", {}).get("sha256") == sha256), None)


def _parts_naming(context: Context, sha256: str) -> Iterator[list[blobs.Part]]:
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
    for artifact in unfinished.with_parts(unfinished.find(context)):
        yield artifact.parts
    for shown in lineage.events(context).filter(type=EventType.AGENT_TOOL_RESULT, payload__icontains=sha256):
        yield shown.parts


def bundle_of_session(context: Context, *, every_version: bool = False) -> Bundle:
    """The artifacts of a session: the newest version of each name, or every one."""
    delivered = lineage.artifacts(context).order_by("first_event")
    listed = list(delivered.values_list("pk", "first_event", "name", "artifact_id"))
    if not every_version:
        return Bundle(dict.fromkeys({name or own: pk for pk, _, name, own in listed}.values()))
    versions = number_versions(row[1:] for row in listed)
    counted = Counter(name or own for _, _, name, own in listed)
    return Bundle({pk: versions[first] if counted[name or own] > 1 else None for pk, first, name, own in listed})


@dataclass(frozen=True, slots=True)
class Bundle:
    """The keys of artifacts in order, each with its version if several have the same name."""

    keys: dict[int, int | None]

    async def zipped(self) -> AsyncIterator[bytes]:
        """The pieces of the ZIP, sent while it is written; a thread is held for one piece at a time."""
        outlet, entries = _ZipBuffer(), self.entries()
        archive = zipfile.ZipFile(outlet, "w", zipfile.ZIP_DEFLATED)
        while entry := await db.run(next, entries, None):
            written = write_entry(archive, *entry)
            while await asyncio.to_thread(next, written, 0):
                if piece := outlet.take():
                    yield piece
        archive.close()
        yield outlet.take()

    def entries(self) -> Iterator[tuple[str, JSON, datetime.datetime]]:
        """The name, the part and the time of each file. Links to other places are listed in `links.txt`."""
        names, links = UniqueNames(), list[str]()
        for keys in batched(self.keys, ARTIFACTS_AT_ONCE):
            for row in Artifact.objects.filter(pk__in=keys).order_by("first_event"):
                for part in pieces_joined(row.parts):
                    if "url" in part:
                        links.append(f"{part.get('filename') or row}\t{part['url']}\n")
                        continue
                    yield names.unique(_part_name(row, part, self.keys[row.pk])), part, row.created_at
        if links:
            yield names.unique("links.txt"), {"text": "".join(links)}, timezone.now()


def _part_name(row: Artifact, part: JSON, version: int | None) -> str:
    given = PurePosixPath(parts.safe_file_name(part.get("filename") or str(row)))
    ending = given.suffix or mimetypes.guess_extension(media_type_of(part)) or ""
    stem = given.name.removesuffix(given.suffix)
    return f"{stem} v{version}{ending}" if version else f"{stem}{ending}"


def _zip_entry(name: str, part: JSON, at: datetime.datetime) -> zipfile.ZipInfo:
    made = at.timetuple()[:6]
    info = zipfile.ZipInfo(name, made if made[0] >= EARLIEST_YEAR else (EARLIEST_YEAR, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    info.file_size = part["stored"]["size"] if "stored" in part else 0
    return info


def write_entry(archive: zipfile.ZipFile, name: str, part: JSON, made: datetime.datetime) -> Iterator[int]:
    """Write a part's content into a ZIP, piece by piece; yields the size of each. Raises FileNotFoundError."""
    with blobs.open_content(part) as source, archive.open(_zip_entry(name, part, made), "w") as target:
        while piece := source.read(READ_BYTES):
            yield target.write(piece)


class _ZipBuffer(io.RawIOBase):
    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, piece: bytes) -> int:  # type: ignore[override]
        self._written += piece
        return len(piece)

    def take(self) -> bytes:
        taken, self._written = bytes(self._written), bytearray()
        return taken


class UniqueNames:
    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        safe = safe_name(wanted)
        path, name = PurePosixPath(safe), safe
        while (key := _folded(name)) in self._used:
            self._used[_folded(safe)] += 1
            name = f"{path.stem} ({self._used[_folded(safe)]}){path.suffix}"
        self._used[key] = 1
        return name


def safe_name(wanted: str) -> str:
    """The last component of a name, without characters and names that some systems forbid or interpret."""
    name = FORBIDDEN_CHARACTERS.sub("_", parts.safe_file_name(wanted)).rstrip(". ")
    return f"_{name}" if RESERVED_NAME.fullmatch(name) else name or "file"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
