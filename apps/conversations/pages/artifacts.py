"""A session's files: list, preview and download.

Artifacts may be hostile: nothing of them runs in our pages. Pictures and plain text open in the browser, HTML in a
sandbox, PDF without scripts and actions. Everything else is downloaded.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby

from django.contrib.auth.decorators import login_required
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from apps.accounts.audit_models import AuditAction
from apps.conversations.pages.previews import pdf
from apps.conversations.pages.previews.files import PICTURE_TYPES, File, Preview, encoding_of, preview_of, text_of
from apps.conversations.pages.session.messages import chip_content, shown_file, size_text
from apps.conversations.pages.session.pictures import surroundings_in, with_embedded_pictures
from apps.conversations.pages.session.texts import Place, Places
from apps.conversations.public_links import downloads
from apps.conversations.public_links.downloads import stream_response
from apps.record import lineage, wire
from apps.record.content import blobs, parts
from apps.record.events import JSON, EventType
from apps.record.models import Artifact, Context, Event, TaskState
from apps.record.reading import unfinished
from apps.web.shell import reader_view, session_or_404
from parley import db
from parley.registry import added

SHOWN_AT_ONCE = 3  # parts of an artifact
MOST_PARTS = 100  # parts that are listed
VERIFIED_AT_ONCE = 8_000_000  # bytes; larger artifacts are verified on request


@reader_view
def files(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    context = session_or_404(request, session)
    return render(
        request,
        "conversations/_files.html",
        {"files": artifacts_by_name(artifacts_before(context, context.last_event + 1))},
    )


@reader_view
def artifact_look(request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str) -> HttpResponse:
    """What is noted of an artifact, and its parts, as a fragment."""
    context = session_or_404(request, session)
    row = artifact_or_404(context, task, artifact)
    held = parts.pieces_joined(row.parts)
    shown = [
        {
            **artifact_part(part, context, row, number),
            **_part_place(context, row, number),
            "preview": _part_preview(request, context, row, held, number),
        }
        for number, part in enumerate(held[:MOST_PARTS])
    ]
    is_small = sum(parts.size_of(part) or 0 for part in held) <= VERIFIED_AT_ONCE
    about: JSON = {
        "artifact": row,
        "parts": shown,
        "unlisted": max(0, len(held) - MOST_PARTS),
        "provenance": artifact_url(context.pk, row, "artifact-provenance"),
    }
    if row.until is None:
        about["notes"] = [note(request, context, row, is_small) for note in added["artifact_notes"]]
    return render(request, "conversations/_artifact.html", about)


@reader_view
def artifact_preview(
    request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str, number: int
) -> HttpResponse:
    """One part, as a fragment: `?as` is the mode, `?sort` and `?down` the order."""
    context = session_or_404(request, session)
    row = artifact_or_404(context, task, artifact)
    preview = preview_of(_file(context, row, parts.pieces_joined(row.parts), number), request.GET)
    return render(request, "conversations/_preview.html", _part_place(context, row, number) | {"preview": preview})


@require_safe
@login_required
async def artifacts_zip(request: HttpRequest, session: uuid.UUID) -> HttpResponseBase:
    """A ZIP of the newest version of each name; with `?all` of every version."""
    context = await db.run(session_or_404, request, session)
    bundle = await db.run(downloads.bundle_of_session, context, every_version="all" in request.GET)
    if not bundle.keys:
        raise Http404
    await db.run(downloads.record_download, AuditAction.FILES_EXPORTED, context, request)
    return downloads.zip_response(context, bundle)


def _part_preview(
    request: HttpRequest, context: Context, row: Artifact, held: list[JSON], number: int
) -> Preview | None:
    """None for links, and if the person must ask for the preview."""
    if number >= SHOWN_AT_ONCE or "url" in held[number]:
        return None
    return preview_of(_file(context, row, held, number), request.GET)


def _file(context: Context, row: Artifact, held: list[JSON], number: int) -> File:
    part = parts.part_at(held, number)
    name = part.get("filename") or str(row)
    around = surroundings_in(context.pk, f"file-{number}", row.task_id)
    return File(part, name, believed_type(part), artifact_url(context.pk, row, "artifact-file", number), around)


def _part_place(context: Context, row: Artifact, number: int) -> JSON:
    return {"number": number, "preview_url": artifact_url(context.pk, row, "artifact-preview", number)}


THUMBNAIL_BYTES = 2_000_000  # larger pictures have no thumbnail
LISTED_CHUNKS = 300  # of an unfinished artifact that are read for the list of files
SHOWN_CHUNKS = 2_000  # and for the conversation


def shown_artifacts(context: Context, rows: Iterable[Artifact]) -> list[JSON]:
    """Artifacts for the conversation, given with their tasks and in order."""
    places = Places(context.pk)
    return [_shown_artifact(context, row, joined, place) for row, joined, place in _placed(rows, places)]


def _placed(rows: Iterable[Artifact], places: Places) -> Iterator[tuple[Artifact, list[JSON], Place]]:
    for row in rows:
        joined = parts.pieces_joined(row.parts)
        yield row, joined, places.place_of(row, joined)


def _shown_artifact(context: Context, row: Artifact, joined: list[JSON], place: Place) -> JSON:
    files = [artifact_part(part, context, row, number) for number, part in enumerate(joined)]
    if row.is_cut:
        files = [{**file, "size": None} for file in files]
    return {
        "kind": place.kind,
        "html": place.html,
        "text": place.text,
        "isListed": place.is_listed,
        "isUnfinished": row.until is not None,
        "taskId": str(row.task_id),
        "artifactId": row.artifact_id,
        "name": row.name,
        "description": row.description,
        "firstEvent": row.first_event,
        "began": wire.timestamp(row.created_at),
        "isSigned": bool(row.signature),
        "parts": files,
        "chip": _chip(row.name, files),
        "about": about_text(files),
        "look": artifact_url(context.pk, row, "artifact-look"),
    }


def _chip(name: str, files: list[JSON]) -> str:
    first: JSON = files[0] if files else {"mediaType": "", "size": None}
    sign = ""
    if (small := _thumbnail(files)) is not None:
        sign = format_html('<img class="thumbnail" src="{}" alt="" loading="lazy" decoding="async">', small)
    return chip_content(name, first["mediaType"], first["size"], sign)


def _thumbnail(files: list[JSON]) -> str | None:
    match files:
        case [{"mediaType": media_type, "size": int(size), "href": href, **rest}, *_] if "elsewhere" not in rest:
            return f"{href}?look" if media_type in PICTURE_TYPES and size <= THUMBNAIL_BYTES else None
    return None


def artifacts_before(context: Context, index: int) -> list[JSON]:
    """What the list of files shows, by first chunk: delivered and unfinished artifacts.

    A long session has many texts that the list leaves out, so these are not drawn.
    """
    placed = _placed(unfinished.with_delivered(context, upto=index - 1, most=LISTED_CHUNKS), Places())
    return [_shown_artifact(context, row, joined, place) for row, joined, place in placed if place.is_listed]


def delivered_by(context: Context, events: Iterable[Event]) -> dict[uuid.UUID | None, list[JSON]]:
    """By task: artifacts of the tasks that these events complete."""
    finished = {event.task_id for event in events if _completes(event)}
    found: dict[uuid.UUID | None, list[Artifact]] = {task: [] for task in finished}
    if finished:
        delivered = Artifact.objects.delivered().filter(task__in=finished).select_related("task")
        for row in delivered.order_by("first_event"):
            found[row.task_id].append(row)
    return {task: shown_artifacts(context, rows) for task, rows in found.items()}


def left_by(context: Context, events: Iterable[Event]) -> dict[int, list[JSON]]:
    """By index: artifacts that these events leave unfinished."""
    ended = unfinished.ended_by(events)
    unfinished.with_parts([row for rows in ended.values() for row in rows], SHOWN_CHUNKS)
    return {index: shown_artifacts(context, rows) for index, rows in ended.items()}


def _completes(event: Event) -> bool:
    is_answer = event.type == EventType.AGENT_STATUS and event.payload["state"] == TaskState.COMPLETED
    return is_answer or event.type == EventType.AGENT_COMPLETE


def artifact_part(part: JSON, context: Context, row: Artifact, number: int) -> JSON:
    return shown_file(part, artifact_url(context.pk, row, "artifact-file", number))


def artifact_url(session: uuid.UUID, row: Artifact, view: str, *part: int) -> str:
    """The URL of a view of an artifact or part."""
    return reverse(f"web:{view}", args=[session, row.task_id, row.artifact_id, *part])


TYPE_NAMES = {
    "application/pdf": "PDF",
    "application/json": "JSON",
    "text/markdown": "Markdown",
    "text/plain": "Text",
    "text/html": "HTML",
    "text/csv": "CSV",
    "image/svg+xml": "SVG",
}


@dataclass(frozen=True)
class ListedArtifact:
    """A delivered artifact and its version within its name; 0 if it is the only one."""

    artifact: JSON
    version: int

    @property
    def key(self) -> str:
        return f"{self.artifact['taskId']}/{self.artifact['artifactId']}"

    @property
    def name(self) -> str:
        return artifact_name(self.artifact)

    @property
    def is_picture(self) -> bool:
        return any(part["mediaType"].startswith("image/") for part in self.artifact["parts"][:1])

    @property
    def about(self) -> str:
        return about_text(self.artifact["parts"], self.version)

    @property
    def only_part(self) -> JSON | None:
        """The only part, if it can be downloaded."""
        parts = self.artifact["parts"]
        return parts[0] if len(parts) == 1 and parts[0]["href"] else None


def about_text(files: list[JSON], version: int = 0) -> str:
    """Type, size, version and number of parts, as far as they are known and matter."""
    facts = []
    for part in files[:1]:
        facts += [type_name(part["mediaType"]), "" if part["size"] is None else size_text(part["size"])]
    facts += [f"v{version}" if version else "", f"{len(files)} parts" if len(files) > 1 else ""]
    return " · ".join(filter(None, facts))


def artifact_name(artifact: JSON) -> str:
    return str(artifact["name"] or artifact["artifactId"])


def artifacts_by_name(artifacts: list[JSON]) -> list[tuple[ListedArtifact, list[ListedArtifact]]]:
    """By name: the newest version, and older ones. The newest task is first; its artifacts keep their order."""
    first_events: dict[str, int] = {}
    for artifact in artifacts:  # oldest first
        first_events.setdefault(artifact["taskId"], artifact["firstEvent"])
    named = sorted(sorted(artifacts, key=lambda one: -one["firstEvent"]), key=artifact_name)
    groups = [list(group) for _, group in groupby(named, key=artifact_name)]
    groups.sort(key=lambda group: (-first_events[group[0]["taskId"]], group[0]["firstEvent"]))
    listed = (
        [ListedArtifact(artifact, len(group) - place if len(group) > 1 else 0) for place, artifact in enumerate(group)]
        for group in groups
    )
    return [(newest, older) for newest, *older in listed]


def type_name(media_type: str) -> str:
    kind = media_type.partition("/")[2] or media_type
    return TYPE_NAMES.get(media_type) or kind.removeprefix("x-").removeprefix("vnd.")[:24].upper()


NOTHING_CSP = "default-src 'none'; sandbox"  # Chromium shows a PDF in this sandbox, not in a frame's
DRAWING_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox"
CSP_BY_TYPE = {"text/html": DRAWING_CSP, "image/svg+xml": DRAWING_CSP}
PDF_TYPE = "application/pdf"
EMBEDDING_BYTES = 2_000_000  # a larger page is sent without the pictures beside it
OPENABLE_TYPES = (*PICTURE_TYPES, PDF_TYPE, "text/html", "text/plain")


@reader_view
def message_file(request: HttpRequest, session: uuid.UUID, index: int, number: int) -> HttpResponseBase:
    said = lineage.messages(session_or_404(request, session)).filter(index=index).first()
    return part_response(request, parts.part_at(said.parts if said else [], number))


@reader_view
def artifact_file(
    request: HttpRequest, session: uuid.UUID, task: uuid.UUID, artifact: str, number: int
) -> HttpResponseBase:
    """A part as a file; `?look` opens it in the browser where that is safe."""
    context = session_or_404(request, session)
    found = artifact_or_404(context, task, artifact)
    siblings = lineage.artifacts(context).filter(task=task)
    response = part_response(request, parts.part_at(parts.pieces_joined(found.parts), number), str(found), siblings)
    if found.until is not None:
        response["Cache-Control"] = "private, no-store"  # a later turn may make it again
    return response


def artifact_or_404(context: Context, task: uuid.UUID, artifact: str, *, is_delivered: bool = False) -> Artifact:
    """The artifact with its parts; an unfinished one too, unless `is_delivered`."""
    delivered = lineage.artifacts(context).select_related("task__context")
    found = delivered.filter(task=task, artifact_id=artifact).first() if "\0" not in artifact else None
    if found is None and not is_delivered:
        named = [row for row in unfinished.find(context) if (row.task_id, row.artifact_id) == (task, artifact)]
        found = next(iter(unfinished.with_parts(named)), None)
    if found is None:
        raise Http404
    return found


def believed_type(part: JSON) -> str:
    """The stated media type, unless the content has another."""
    said = parts.media_type_of(part)
    return said if "url" in part else parts.verified_media_type(said, blobs.head_of(part, parts.HEAD_BYTES))


def part_response(
    request: HttpRequest, part: JSON, name: str = "", siblings: Iterable[Artifact] = ()
) -> HttpResponseBase:
    media_type = believed_type(part)
    is_download = not ("look" in request.GET and media_type in OPENABLE_TYPES)
    if media_type == PDF_TYPE and not is_download:
        response: HttpResponseBase = _pdf_response(part)
    elif media_type == "text/html" and not is_download and (parts.size_of(part) or 0) <= EMBEDDING_BYTES:
        text = text_of(blobs.content_of(part), str(part.get("mediaType", "")))
        response = HttpResponse(with_embedded_pictures(text, siblings), "text/html; charset=utf-8")
    else:
        is_text = media_type.startswith("text/")
        response = _content_response(part, f"{media_type}; charset={_encoding(part)}" if is_text else media_type)
    named = part.get("filename") or name or "file"
    response["Content-Disposition"] = content_disposition_header(is_download, named) or ""
    response["X-Content-Type-Options"] = "nosniff"
    framed_by = "'none'" if is_download else "'self'"  # a preview is a frame
    response["Content-Security-Policy"] = f"{CSP_BY_TYPE.get(media_type, NOTHING_CSP)}; frame-ancestors {framed_by}"
    response["X-Frame-Options"] = "DENY" if is_download else "SAMEORIGIN"
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    if media_type == PDF_TYPE and not is_download:
        response["Cache-Control"] = "private, no-cache"  # a later version may remove more
    return response


def _pdf_response(part: JSON) -> HttpResponse:
    """The PDF without scripts and actions; a sentence if that fails."""
    try:
        if part.get("stored", {}).get("size", 0) > pdf.MOST_PDF_BYTES:
            raise pdf.CannotBeShown
        return HttpResponse(pdf.sanitized_pdf(blobs.content_of(part)), PDF_TYPE)
    except pdf.CannotBeShown:
        sentence = str(pdf.CannotBeShown.__doc__)
        return HttpResponse(sentence, "text/plain; charset=utf-8", HTTPStatus.UNPROCESSABLE_ENTITY)


def _encoding(part: JSON) -> str:
    head = blobs.head_of(part, parts.HEAD_BYTES)
    return encoding_of(head, str(part.get("mediaType", "")), is_cut=len(head) == parts.HEAD_BYTES)


def _content_response(part: JSON, content_type: str) -> HttpResponseBase:
    if "stored" not in part:
        return HttpResponse(blobs.content_of(part), content_type=content_type)
    return stream_response(FileResponse(blobs.open_content(part), content_type=content_type))
