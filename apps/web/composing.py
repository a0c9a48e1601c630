"""From a page's composer to an A2A message: words, files, and a filled-in form."""

from __future__ import annotations

import base64
import mimetypes
import uuid
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest
from django.utils.datastructures import MultiValueDict

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.features.uploads import completing
from apps.record import media_types
from apps.record.errors import ContentTypeNotSupported, InvalidParams, UploadNotFound
from apps.record.media_types import file_name
from apps.web import questions
from apps.web.questions import Field, Unanswered

JSON = dict[str, Any]
MEGABYTE = 1024 * 1024
MOST_REFERENCES = 100


def message_from(
    request: HttpRequest, agent: Agent, slot: JSON | None = None, *, uploaded: Iterable[JSON] = ()
) -> JSON:
    """The message that the form of `request` says; with a `slot`, the answer to its question where one is filled in.

    `uploaded` are the files that came before it. Raises errors.Refusal with a sentence about what to change.
    """
    fields = questions.fields_of(slot) if "answers" in request.POST else []
    words = request.POST.get("text", "").replace("\x00", "").strip()
    parts: list[JSON] = [{"text": words}] if words else []
    try:
        if (answer := questions.answer_from(fields, dict(request.POST.lists()))) is not None:
            parts.append({"data": answer})
        uploads = _uploads(request.FILES, fields)
    except Unanswered as unanswered:
        raise InvalidParams(str(unanswered), unanswered.field) from None
    parts += [_file_part(upload, agent) for upload in uploads]
    parts += uploaded
    if not parts:
        raise InvalidParams("There is nothing to send yet. Write a message or choose a file.", "text")
    if len(parts) > settings.MAX_PARTS:
        raise InvalidParams(f"Send at most {settings.MAX_PARTS - 1} files at once.", "files")
    message = {"messageId": message_id(request), "role": "ROLE_USER", "parts": parts}
    references = request.POST.getlist("reference")[:MOST_REFERENCES]
    return {**message, "referenceTaskIds": references} if references else message


def uploaded_files(principal: Principal, agent: Agent, keys: Iterable[str]) -> list[JSON]:
    """Files of the caller's that came in pieces, by the ids of their uploads, as parts. Raises errors.Refusal."""
    try:
        parts = [completing.part_of(principal, uuid.UUID(key)) for key in keys]
    except (ValueError, UploadNotFound):
        raise InvalidParams("A file is no longer there: it waited too long. Choose it again.", "files") from None
    return [_taken(part, agent) for part in parts]


def message_id(request: HttpRequest) -> str:
    """The id that the browser chose, so that sending again does not say it twice."""
    try:
        return str(uuid.UUID(request.POST.get("message", "")))
    except ValueError:
        raise InvalidParams("This page is out of date. Load it again.", "message") from None


def _uploads(files: MultiValueDict[str, UploadedFile[bytes]], fields: Iterable[Field]) -> list[UploadedFile[bytes]]:
    """Everything that was uploaded. Raises Unanswered for a file that was asked for and is not there."""
    uploads = files.getlist("files")
    for field in fields:
        if field.kind == "file":
            given = files.getlist(field.html_name)
            if not given and field.required:
                raise Unanswered(f"{field.label}: choose a file.", field.html_name)
            uploads = [*uploads, *given]
    return uploads


def _file_part(upload: UploadedFile[bytes], agent: Agent) -> JSON:
    name = file_name(upload.name or "")
    if not upload.size:
        raise InvalidParams(f"“{name}” is empty. Choose a file that has something in it.", "files")
    content = upload.read()
    labels = media_types.labels(media_type_of(name, upload.content_type), content[: media_types.HEAD])
    return _taken({"raw": base64.b64encode(content).decode(), "filename": name, **labels}, agent)


def _taken(part: JSON, agent: Agent) -> JSON:
    """The file, if the agent takes its type. Raises ContentTypeNotSupported."""
    name, media_type = part["filename"], part["mediaType"]
    if not agent.takes(media_type):
        raise ContentTypeNotSupported(
            f"{agent.name} does not take “{name}” ({media_type}). It takes {', '.join(agent.input_modes)}."
        )
    return part


def media_type_of(name: str, declared: str | None) -> str:
    """What the name suggests; otherwise what the browser says, where that is a media type at all."""
    if guessed := mimetypes.guess_type(name)[0]:
        return guessed
    declared = (declared or "").partition(";")[0].strip().lower()
    return declared if declared.count("/") == 1 and len(declared) <= 100 else "application/octet-stream"


def refuse_too_large(request: HttpRequest) -> None:
    """Raises InvalidParams for a form that is larger than the platform takes, before it is read."""
    length = int(request.headers.get("Content-Length") or 0)
    if length > settings.MAX_REQUEST_BYTES:
        limit, size = settings.MAX_REQUEST_BYTES // MEGABYTE, length / MEGABYTE
        raise TooLarge(f"That is {size:.1f} MB. Everything sent at once may have {limit} MB.", "files")


class TooLarge(InvalidParams):
    """More than the platform takes at once."""
