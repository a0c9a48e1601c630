"""`/uploads`: files that come in pieces and may be resumed, or small ones at once; messages then name them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from django.core.exceptions import RequestAborted
from django.urls import path, reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.api.framework.problems import MediaTypeNotSupported
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Line, Query, Shape
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON
from apps.features.uploads import resumable
from apps.features.uploads.models import Upload
from apps.features.uploads.resumable import AppendableFile, offset_of
from apps.record import wire
from apps.record.errors import InvalidFields, WrongOffset

OFFSET = "Upload-Offset"
BYTES = "application/octet-stream"
PIECE = "application/offset+octet-stream"  # the same, as clients of tus say it (https://tus.io)
MAX_PATH = 1000  # characters of a name as it comes, of which the last component is kept


class Sha256(serializers.RegexField):
    """The SHA-256 of a file, in hexadecimal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(r"^[0-9a-fA-F]{64}$", help_text="Checked once the file is whole.", **options)


class NewUpload(Body):
    filename = serializers.CharField(max_length=MAX_PATH)
    size = serializers.IntegerField(help_text="Bytes of the whole file.")
    media_type = Line(default="", allow_blank=True, help_text="What the file is said to be.")
    sha256 = Sha256(default="")


class AtOnce(Query):
    filename = serializers.CharField(
        max_length=MAX_PATH,
        required=False,
        help_text="With it the body is the file, of the type that it is sent as.",
    )
    sha256 = Sha256(default="")


class UploadShape(Shape):
    id = serializers.UUIDField()
    offset = serializers.IntegerField(help_text="How many bytes there are: where it goes on.")
    size = serializers.IntegerField()
    is_whole = serializers.BooleanField(help_text="Can messages name it?")
    filename = serializers.CharField()
    media_type = serializers.CharField(help_text="What its content does not contradict; empty until it is whole.")
    media_type_claimed = serializers.CharField(help_text="What it was said to be.")
    sha256 = serializers.CharField(help_text="Empty until it is whole.")
    created_at = serializers.CharField()
    expires_at = serializers.CharField()
    location = serializers.CharField(help_text="Where its pieces are sent.")


Write = Callable[[bytes], Awaitable[None]]


class Receiving(Endpoint):
    """What both addresses do. Nothing of it keeps a thread of the database's while bytes come or are hashed."""

    async def found(self, key: uuid.UUID) -> Upload:
        return await db.run(resumable.find_upload, self.principal, key)

    @asynccontextmanager
    async def appending(self, upload: Upload, offset: int) -> AsyncIterator[Write]:
        """Gives how to append to the upload, whose file is kept safe at the end. Raises WrongOffset, UploadNotFound."""
        try:
            file = await asyncio.to_thread(AppendableFile, upload, offset)
        except WrongOffset:
            current = await self.found(upload.pk)
            raise WrongOffset(await asyncio.to_thread(offset_of, current)) from None

        async def write(piece: bytes) -> None:
            await asyncio.to_thread(file.write, piece)

        try:
            yield write
            await asyncio.to_thread(file.sync)
        finally:
            file.close()

    async def finished(self, upload: Upload) -> Upload:
        """The upload, whole if all of it is there."""
        if found := await asyncio.to_thread(resumable.hash_upload, upload):
            await db.run(resumable.store_upload, upload, found)
        return upload


class Uploads(Receiving):
    @documented(
        "uploads_create",
        "Announce a file, or send a small one at once",
        query=AtOnce,
        body={"application/json": NewUpload, BYTES: OpenApiTypes.BINARY},
        answers={201: UploadShape},
        refuses=[413, 415],
    )
    async def post(self, request: Request) -> Response:
        """Announced, it is empty: send its pieces to its `location`. With a `filename` in the query the body is it."""
        at_once = self.query(AtOnce)
        if "filename" not in at_once:
            told = self.body(NewUpload)
            upload = await db.run(
                resumable.begin_upload,
                self.principal,
                told["filename"],
                told["size"],
                told["media_type"],
                told["sha256"],
            )
        else:
            upload = await self._taken(request, at_once["filename"], at_once["sha256"])
        return await _upload_response(upload, 201)

    async def _taken(self, request: Request, filename: str, sha256: str) -> Upload:
        media_type = request.META.get("CONTENT_TYPE", "")[:200]
        upload = await db.run(
            resumable.begin_upload, self.principal, filename, _read_length(request), media_type, sha256
        )
        try:
            async with self.appending(upload, 0) as write:
                await _receive_body(request, write)
            upload = await self.finished(upload)
        finally:
            if not upload.is_whole:
                await db.run(resumable.discard_upload, upload)
        if not upload.is_whole:
            raise InvalidFields([("Content-Length", "The body is not as long as it says.")])
        return upload


class OneUpload(Receiving):
    @documented("uploads_retrieve", "Where an upload goes on", answers={200: UploadShape}, refuses=[404, 422])
    async def get(self, request: Request, key: uuid.UUID) -> Response:
        """Also asked by HEAD, which says it in `Upload-Offset`."""
        return await _upload_response(await self.finished(await self.found(key)))

    @extend_schema(
        parameters=[OpenApiParameter(OFFSET, OpenApiTypes.INT, OpenApiParameter.HEADER, required=True)],
    )
    @documented(
        "uploads_append",
        "Send the next piece of an upload",
        body={BYTES: OpenApiTypes.BINARY},
        answers={200: UploadShape},
        refuses=[404, 409, 413, 415],
    )
    async def patch(self, request: Request, key: uuid.UUID) -> Response:
        """It begins at `Upload-Offset`. Where that is not where the upload goes on, the refusal says in the same header
        where that is. What came of a piece whose line was cut may be kept."""
        offset = _read_offset(request)
        upload = await self.found(key)
        async with self.appending(upload, offset) as write:
            await _receive_body(request, write)
        return await _upload_response(await self.finished(upload))

    @documented("uploads_delete", "Give an upload up", answers={204: None}, refuses=[404])
    def delete(self, request: Request, key: uuid.UUID) -> Response:
        """Messages that name it keep its content."""
        resumable.discard_upload(resumable.find_upload(self.principal, key))
        return Response(status=204)


async def _receive_body(request: Request, write: Write) -> None:
    """Write the request's body as it comes; a client that leaves has sent what came."""
    scope = getattr(request._request, "scope", {})
    try:
        async for piece in cast("AsyncIterator[bytes]", scope["body_chunks"]):
            await write(piece)
    except RequestAborted:
        return


def _read_offset(request: Request) -> int:
    if request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() not in (BYTES, PIECE):
        raise MediaTypeNotSupported(f"Send the bytes as they are, with Content-Type: {BYTES}.")
    given = request.headers.get(OFFSET, "")
    if not (given.isascii() and given.isdigit() and len(given) < 20):
        raise InvalidFields([(OFFSET, "Say by this header at which byte of the file the piece begins.")])
    return int(given)


def _read_length(request: Request) -> int:
    given = request.META.get("CONTENT_LENGTH") or ""
    if not given.isdigit():
        raise InvalidFields([("Content-Length", "Say by this header how long the file is, or announce it first.")])
    return int(given)


async def _upload_response(upload: Upload, status: int = 200) -> Response:
    told = upload_json(upload, await asyncio.to_thread(offset_of, upload))
    headers = {OFFSET: str(told["offset"]), "Upload-Length": str(upload.size)}
    return Response(told, status, headers=headers | ({"Location": told["location"]} if status == 201 else {}))


def upload_json(upload: Upload, offset: int) -> JSON:
    return {
        "id": str(upload.pk),
        "offset": offset,
        "size": upload.size,
        "isWhole": upload.is_whole,
        "filename": upload.filename,
        "mediaType": upload.media_type,
        "mediaTypeClaimed": upload.claimed,
        "sha256": upload.sha256,
        "createdAt": wire.timestamp(upload.created_at),
        "expiresAt": wire.timestamp(upload.expires_at),
        "location": reverse("api:upload", args=[upload.pk]),
    }


urlpatterns = [
    path("uploads", Uploads.as_view(), name="uploads"),
    path("uploads/<uuid:key>", OneUpload.as_view(), name="upload"),
]
