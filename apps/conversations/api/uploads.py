"""Uploads: resumable in pieces, or small files at once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from django.core.exceptions import RequestAborted
from django.urls import path, reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.principals import Principal
from apps.accounts.requests import bodies
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Line, Query, Shape
from apps.api.framework.views import Operations
from apps.conversations.uploads import resumable
from apps.conversations.uploads.models import Upload
from apps.conversations.uploads.resumable import AppendableFile, offset_of
from apps.record.errors import InvalidFields, UnsupportedMediaType, WrongOffset
from parley import db

OFFSET = "Upload-Offset"
BYTES = "application/octet-stream"
PIECE = "application/offset+octet-stream"  # for clients of tus (https://tus.io)
MAX_PATH = 1000  # characters, before only the last component is kept


class Sha256(serializers.RegexField):
    def __init__(self, **options: Any) -> None:
        super().__init__(
            r"^[0-9a-fA-F]{64}$",
            help_text="The SHA-256 digest of the file. It is checked when the upload is complete.",
            **options,
        )


class NewUpload(Body):
    filename = serializers.CharField(max_length=MAX_PATH)
    size = serializers.IntegerField(help_text="The size of the complete file in bytes.")
    media_type = Line(default="", allow_blank=True, help_text="The media type that you declare for the file.")
    sha256 = Sha256(default="")


class AtOnce(Query):
    filename = serializers.CharField(
        max_length=MAX_PATH,
        required=False,
        help_text="The name of the file. If you set it, the request's body is the file, and its `Content- "
        "Type` is the file's media type.",
    )
    sha256 = Sha256(default="")


class UploadShape(Shape):
    id = serializers.UUIDField()
    offset = serializers.IntegerField(help_text="The number of bytes received so far. The next piece starts here.")
    size = serializers.IntegerField()
    is_whole = serializers.BooleanField(help_text="Whether the upload is complete. Only then can messages refer to it.")
    filename = serializers.CharField()
    media_type = serializers.CharField(
        help_text="The media type after a check of the content. Empty until the upload is complete."
    )
    media_type_claimed = serializers.CharField(source="claimed", help_text="The media type that the client declared.")
    sha256 = serializers.CharField(help_text="The SHA-256 digest of the file. Empty until the upload is complete.")
    created_at = serializers.CharField()
    expires_at = serializers.CharField()
    location = serializers.CharField(help_text="The path to which you send the pieces.")


Write = Callable[[bytes], Awaitable[None]]


class Uploads(Operations):
    """Receiving and hashing hold no database thread."""

    receives_body = False  # but in pieces

    async def found(self, key: uuid.UUID) -> Upload:
        return await db.run(Upload.objects.find, self.principal, key)

    @asynccontextmanager
    async def appending(self, upload: Upload, offset: int) -> AsyncIterator[Write]:
        """Append; the file is synced at the end. Raises WrongOffset, UploadNotFound."""
        try:
            file = await asyncio.to_thread(AppendableFile, upload, offset)
        except WrongOffset:
            current = await self.found(upload.pk)
            raise WrongOffset(await asyncio.to_thread(offset_of, current)) from None

        async def write(piece: bytes) -> None:
            await _whole(asyncio.to_thread(file.write, piece))

        try:
            yield write
            await _whole(asyncio.to_thread(file.sync))
        finally:
            file.close()

    async def finished(self, upload: Upload) -> Upload:
        """Mark a complete upload as whole."""
        if found := await asyncio.to_thread(resumable.hash_upload, upload):
            await db.run(resumable.store_upload, upload, found)
        return upload

    @documented(
        "uploads_create",
        "Create an upload, or upload a small file in one request",
        query=AtOnce,
        body={"application/json": NewUpload, BYTES: OpenApiTypes.BINARY},
        answers={201: UploadShape},
        refuses=[413, 415],
    )
    async def create(self, request: Request) -> Response:
        """A new upload is empty. Send its pieces to its `location`. If the query has a `filename`, the request's
        body is the complete file.
        """
        at_once = self.query(AtOnce)
        if "filename" not in at_once:
            await self.receive_body()
            told = self.body(NewUpload)
            about = (told["filename"], told["size"], told["media_type"], told["sha256"])
            upload = await db.run(resumable.begin_upload, self.principal, *about)
        else:
            upload = await self._taken(request, at_once["filename"], at_once["sha256"])
        return await _upload_response(upload, 201)

    async def _taken(self, request: Request, filename: str, sha256: str) -> Upload:
        about = (filename, _read_length(request), request.META.get("CONTENT_TYPE", "")[:200], sha256)
        upload = await db.run(resumable.begin_upload, self.principal, *about)
        try:
            async with self.appending(upload, 0) as write:
                await _receive_body(request, self.principal, write)
            upload = await self.finished(upload)
        finally:
            if not upload.is_whole:
                await db.run(resumable.discard_upload, upload)
        if not upload.is_whole:
            raise InvalidFields([("Content-Length", "The body is not as long as it says.")])
        return upload

    @documented("uploads_retrieve", "Retrieve an upload and its offset", answers=UploadShape, refuses=[422])
    async def retrieve(self, request: Request, key: uuid.UUID) -> Response:
        """The header `Upload-Offset` also has the offset. A HEAD request returns only the headers."""
        return await _upload_response(await self.finished(await self.found(key)))

    @extend_schema(
        parameters=[OpenApiParameter(OFFSET, OpenApiTypes.INT, OpenApiParameter.HEADER, required=True)],
    )
    @documented(
        "uploads_append",
        "Append a piece to an upload",
        body={BYTES: OpenApiTypes.BINARY},
        answers=UploadShape,
        refuses=[409, 413, 415],
    )
    async def append(self, request: Request, key: uuid.UUID) -> Response:
        """The header `Upload-Offset` says where the piece starts. If that is not the upload's current offset, the
        request is refused, and the response has the current offset in the same header. If the connection breaks
        during a piece, the bytes that arrived may be kept.
        """
        offset = _read_offset(request)
        upload = await self.found(key)
        async with self.appending(upload, offset) as write:
            await _receive_body(request, self.principal, write)
        return await _upload_response(await self.finished(upload))

    @documented("uploads_delete", "Delete an upload", answers=None)
    def remove(self, request: Request, key: uuid.UUID) -> Response:
        """Messages that refer to the upload keep its content."""
        resumable.discard_upload(Upload.objects.find(self.principal, key))
        return Response(status=204)


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Await work of a thread to its end, also if the client leaves: the file must not be closed before."""
    at_work = asyncio.ensure_future(work)
    try:
        await asyncio.shield(at_work)
    except asyncio.CancelledError:
        await asyncio.wait([at_work])
        raise


async def _receive_body(request: Request, principal: Principal, write: Write) -> None:
    """What a disconnecting client sent is kept. The body of a signed request is received whole, to be checked."""
    body = bodies.incoming(request._request)
    if body is None or body.verify is not None:
        await write(await bodies.read(request._request, principal))
        return
    try:
        async for piece in body.chunks():
            await write(piece)
    except RequestAborted:
        return


def _read_offset(request: Request) -> int:
    if request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() not in (BYTES, PIECE):
        raise UnsupportedMediaType(f"Send the bytes as they are, with Content-Type: {BYTES}.")
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
    known = {"offset": await asyncio.to_thread(offset_of, upload), "location": reverse("api:upload", args=[upload.pk])}
    told = UploadShape.json_of(upload, **known)
    headers = {OFFSET: str(told["offset"]), "Upload-Length": str(upload.size)}
    return Response(told, status, headers=headers | ({"Location": told["location"]} if status == 201 else {}))


urlpatterns = [
    path("uploads", Uploads.at(post="create"), name="uploads"),
    path("uploads/<uuid:key>", Uploads.at(get="retrieve", patch="append", delete="remove"), name="upload"),
]
