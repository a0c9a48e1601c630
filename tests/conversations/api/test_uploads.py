"""Files are uploaded in pieces, and get their type from their content."""

import asyncio
import base64
import datetime
import hashlib
import os
import uuid

import pytest
from asgiref.sync import sync_to_async
from django.core.files.storage import default_storage
from django.utils import timezone

from apps.conversations.api.uploads import PIECE, UploadShape
from apps.conversations.sessions import deletion
from apps.conversations.uploads import resumable
from apps.conversations.uploads.models import Upload
from apps.engine import accept
from apps.record.content import blobs, parts
from apps.record.errors import InvalidParams, UploadNotFound
from apps.record.models import Blob, Message

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("of those who send a piece or begin a file at once so many win, by the database's locks"),
]

CONTENT = os.urandom(700_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
BYTES = "application/octet-stream"


@pytest.fixture(autouse=True)
def _own_folder(settings, tmp_path):
    settings.UPLOADS_DIR = tmp_path / "uploads"


async def begun(caller, size=700_000, **fields):
    answer = await caller.post("/uploads", {"filename": "big.bin", "size": size, **fields})
    assert answer.status == 201, answer.content
    return answer.body


async def send(caller, upload, content, offset):
    return await caller.ask(
        "PATCH", f"/uploads/{upload['id']}", content, {"content-type": PIECE, "upload-offset": str(offset)}
    )


async def whole(caller, content, **fields):
    answer = await send(caller, await begun(caller, len(content), **fields), content, 0)
    assert answer.status == 200, answer.content
    return answer.body


async def now(caller, upload):
    answer = await caller.get(f"/uploads/{upload['id']}")
    return answer.body if answer.status == 200 else answer.code


async def part_of(user, upload):
    return await sync_to_async(resumable.message_part)(user.principal, uuid.UUID(upload["id"]))


async def test_file_comes_in_pieces_for_a_message(ada, ada_calls, echo, said):
    upload = await begun(ada_calls, filename="../data/big.bin", mediaType="application/x-big", sha256=SHA256.upper())
    assert set(upload) == set(UploadShape().fields)
    assert (upload["offset"], upload["isWhole"], upload["filename"]) == (0, False, "big.bin")
    for offset in range(0, len(CONTENT), 300_000):
        answer = await send(ada_calls, upload, CONTENT[offset : offset + 300_000], offset)
        assert answer.headers["upload-offset"] == str(min(len(CONTENT), offset + 300_000))
    told = answer.body
    assert (told["isWhole"], told["sha256"], told["mediaType"]) == (True, SHA256, "application/x-big")
    part = await part_of(ada, upload)
    assert part["stored"] == {"sha256": SHA256, "size": len(CONTENT), "kind": "raw"}
    assert blobs.content_of(part) == CONTENT
    assert not resumable.path_of(uuid.UUID(upload["id"])).exists()
    await sync_to_async(accept.accept)(ada.principal, echo, said(parts=[part]))
    assert (await Blob.objects.aget(sha256=SHA256)).uses == 2
    assert (await ada_calls.delete(f"/uploads/{upload['id']}")).status == 204
    assert (await Blob.objects.aget(sha256=SHA256)).uses == 1
    assert blobs.content_of((await Message.objects.aget(role="user")).parts[0]) == CONTENT


async def test_a_small_file_comes_at_once(ada_calls):
    answer = await ada_calls.ask("POST", "/uploads?filename=map.png", PNG, {"content-type": "image/png"})
    assert (answer.status, answer.headers["location"]) == (201, answer.body["location"])
    assert (answer.body["isWhole"], answer.body["mediaType"]) == (True, "image/png")
    assert (await ada_calls.get(answer.body["location"].removeprefix("/api/v1"))).body == answer.body
    other = await ada_calls.ask("POST", f"/uploads?filename=a&sha256={SHA256}", b"a")
    assert (other.status, other.fields) == (422, ["sha256"])


async def test_browser_uploads_only_with_its_token(ada_browses):
    for media_type in ("text/plain", "multipart/form-data; boundary=x", ""):
        path, headers = "/uploads?filename=a", {"content-type": media_type}
        refused = await ada_browses.ask("POST", path, b"abc", headers)
        assert (refused.status, refused.code) == (403, "forbidden"), media_type
        sent = await ada_browses.ask("POST", path, b"abc", {**headers, "x-csrftoken": "a" * 32})
        assert (sent.status, sent.body["sha256"]) == (201, hashlib.sha256(b"abc").hexdigest()), media_type


async def test_upload_goes_on_at_its_offset_alone(ada_calls):
    upload = await begun(ada_calls, 10)
    assert (await send(ada_calls, upload, b"01234", 0)).body["offset"] == 5
    for offset in (0, 4, 6, 10, 11):
        refused = await send(ada_calls, upload, b"x", offset)
        assert (refused.status, refused.code, refused.headers["upload-offset"]) == (409, "conflict", "5")
    more = await send(ada_calls, upload, b"567890", 5)
    assert (more.status, more.code) == (413, "too_large"), "more than was announced"
    asked = await ada_calls.ask("HEAD", f"/uploads/{upload['id']}")
    assert (asked.status, asked.headers["upload-offset"], asked.headers["upload-length"]) == (200, "5", "10")
    assert (await send(ada_calls, upload, b"56789", 5)).body["sha256"] == hashlib.sha256(b"0123456789").hexdigest()
    again = await send(ada_calls, upload, b"", 5)
    assert (again.status, again.headers["upload-offset"]) == (409, "10")


async def test_wrong_uploads_and_pieces_are_refused(ada_calls, settings):
    settings.MAX_UPLOAD_BYTES, settings.MAX_REQUEST_BYTES = 10_000, 1_000
    for fields, status, named in (
        ({"size": 0}, 422, ["size"]),
        ({"size": 10_001}, 413, []),
        ({"sha256": "g" * 64}, 422, ["sha256"]),
        ({"filename": "a\x00b"}, 422, ["filename"]),
        ({"mediaType": "text/html\r\nX-Evil: 1"}, 422, ["mediaType"]),
        ({"path": "/etc/passwd"}, 422, ["path"]),
    ):
        answer = await ada_calls.post("/uploads", {"filename": "a.txt", "size": 10, **fields})
        assert (answer.status, answer.fields) == (status, named), fields
    assert await Upload.objects.acount() == 0
    upload = await begun(ada_calls, 10_000)
    for offset in (None, "-1", "²"):
        headers = {"content-type": PIECE} | ({"upload-offset": offset} if offset else {})
        refused = await ada_calls.ask("PATCH", f"/uploads/{upload['id']}", b"01234", headers)
        assert (refused.status, refused.fields) == (422, ["Upload-Offset"]), offset
    assert (await send(ada_calls, upload, bytes(1_001), 0)).status == 413
    assert (await now(ada_calls, upload))["offset"] == 0


async def test_upload_name_is_a_paths_last_component(ada_calls):
    for given, kept in (
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\win.ini", "win.ini"),
        ("..", "file"),
        ("a\nb\u202e.txt", "ab.txt"),
        ("é" * 300 + ".pdf", "é" * 196 + ".pdf"),
    ):
        upload = await begun(ada_calls, 1, filename=given)
        assert upload["filename"] == kept
        await ada_calls.delete(f"/uploads/{upload['id']}")


async def test_wrong_file_is_gone_incomplete_file_is_refused(ada, ada_calls):
    upload = await begun(ada_calls, 5, sha256=SHA256)
    refused = await send(ada_calls, upload, b"other", 0)
    assert (refused.status, refused.fields) == (422, ["sha256"])
    assert await now(ada_calls, upload) == "not_found"
    assert not resumable.path_of(uuid.UUID(upload["id"])).exists()
    upload = await begun(ada_calls, 10)
    await send(ada_calls, upload, b"01234", 0)
    with pytest.raises(InvalidParams, match="byte 5 of 10") as told:
        await part_of(ada, upload)
    assert told.value.field == "uploadId"


async def test_one_of_concurrent_pieces_wins(ada_calls):
    upload = await begun(ada_calls)
    answers = await asyncio.gather(*(send(ada_calls, upload, CONTENT, 0) for _ in range(6)))
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409, 409]
    assert (await now(ada_calls, upload))["sha256"] == SHA256
    assert (await Blob.objects.aget(sha256=SHA256)).uses == 1
    upload = await begun(ada_calls, 10)
    file = resumable.AppendableFile(await Upload.objects.aget(pk=upload["id"]), 0)
    file.write(b"012")
    refused = await send(ada_calls, upload, b"x", 3)
    assert (refused.status, refused.headers["upload-offset"]) == (409, "3")
    file.close()
    assert (await send(ada_calls, upload, b"3456789", 3)).body["isWhole"]


async def test_uploads_of_a_person_are_limited(ada_calls, bob_calls, settings):
    settings.MAX_OPEN_UPLOADS, settings.MAX_UPLOADED_BYTES = 2, 100
    first = await begun(ada_calls, 50)
    too_large = await ada_calls.post("/uploads", {"filename": "a", "size": 51})
    assert (too_large.status, "50 bytes" in too_large.body["detail"]) == (413, True)
    await begun(ada_calls, 50)
    too_many = await ada_calls.post("/uploads", {"filename": "a", "size": 1})
    assert (too_many.status, too_many.code) == (429, "too_much")
    assert int(too_many.headers["retry-after"]) > 0
    await begun(bob_calls, 50)
    assert (await ada_calls.delete(f"/uploads/{first['id']}")).status == 204
    at_once = await asyncio.gather(*(ada_calls.post("/uploads", {"filename": "a", "size": 1}) for _ in range(6)))
    assert sorted(answer.status for answer in at_once) == [201] + [429] * 5


async def test_expired_uploads_go_unless_a_message_has_them(ada, ada_calls, echo, said, settings):
    settings.UNUSED_FILE_SECONDS = -1
    part_only = await begun(ada_calls, 10)
    used, unused = await whole(ada_calls, b"used"), await whole(ada_calls, b"unused")
    sent = await sync_to_async(accept.accept)(ada.principal, echo, said(parts=[await part_of(ada, used)]))
    await Upload.objects.aupdate(expires_at=timezone.now() - datetime.timedelta(seconds=1))
    assert await now(ada_calls, used) == "not_found"
    with pytest.raises(UploadNotFound):
        await part_of(ada, used)
    await sync_to_async(resumable.delete_expired)()
    assert await Upload.objects.acount() == 0
    assert not resumable.path_of(uuid.UUID(part_only["id"])).exists()
    assert default_storage.exists(blobs.path_of(used["sha256"]))
    assert not default_storage.exists(blobs.path_of(unused["sha256"]))
    await sync_to_async(deletion.delete_session)(ada.principal, sent.context)
    assert not default_storage.exists(blobs.path_of(used["sha256"]))


async def test_upload_of_a_killed_process_is_finished_later(ada, ada_calls, monkeypatch):
    upload = await begun(ada_calls)
    file = resumable.AppendableFile(await Upload.objects.aget(), 0)
    file.write(CONTENT)
    file.close()  # the process died here
    asked = await now(ada_calls, upload)
    assert (asked["isWhole"], asked["sha256"]) == (True, SHA256)
    upload = await begun(ada_calls)
    monkeypatch.setattr(resumable, "_move_into_place", lambda upload: None)  # the process died before it moved the file
    assert (await send(ada_calls, upload, CONTENT, 0)).body["isWhole"]
    monkeypatch.undo()
    assert await sync_to_async(blobs.content_of)(await part_of(ada, upload)) == CONTENT


def test_finding_a_media_type_takes_linear_time():
    """A pattern could match a row of comments with no picture in 2^1000 ways."""
    assert parts.verified_media_type("image/svg+xml", b"<!-- -->" * 1000) == BYTES
    comments = b"<?xml version='1.0'?>\n<!-- a --> <!DOCTYPE svg>\n<!-- b -->\n<svg:svg>"
    assert parts.verified_media_type("image/svg+xml", comments) == "image/svg+xml"


async def test_contradicted_media_type_is_not_believed(ada, ada_calls, echo):
    for content, claimed, kept in (
        (PNG, "", "image/png"),
        (b"<html><script>alert(1)</script>", "image/png", BYTES),
        (b"<html><script>alert(1)</script>", "image/svg+xml", BYTES),
        (b"<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", "image/svg+xml"),
        (b"MZ\x90\x00\x03", "application/pdf", BYTES),
        (PNG, "text/plain", BYTES),
        (b"BMW drives", "text/plain", "text/plain"),
        ("a;b;ü".encode("cp1252"), "text/csv", "text/csv"),
        (b"just words", "", "text/plain"),
        (PNG, "no media type", BYTES),
        (b"PK\x03\x04" + bytes(40), "application/x-sketch", "application/x-sketch"),
    ):
        upload = await whole(ada_calls, content, mediaType=claimed)
        assert (upload["mediaType"], upload["mediaTypeClaimed"]) == (kept, claimed), (content[:9], claimed)
        part = await part_of(ada, upload)
        assert part["mediaType"] == kept
        assert part.get("metadata", {}).get("mediaTypeClaimed", claimed or kept) == (claimed or kept)
        await ada_calls.delete(f"/uploads/{upload['id']}")
    script = base64.b64encode(b"<script>alert(1)</script>").decode()
    parts = [{"raw": script, "filename": "a.png", "mediaType": "image/png", "metadata": {"mine": 1}}]
    sent = await ada_calls.post("/sessions", {"agent": "echo", "message": {"parts": parts}})
    [part] = sent.body["message"]["parts"]
    assert (part["mediaType"], part["metadata"]) == (BYTES, {"mine": 1, "mediaTypeClaimed": "image/png"})


async def test_a_message_names_an_upload(echo, ada_calls, bob_calls):
    upload = await whole(ada_calls, PNG, filename="map.png", mediaType="image/png")
    session = (await ada_calls.post("/sessions", {"agent": "echo"})).body["session"]["id"]
    said = {"text": "look", "parts": [{"uploadId": upload["id"]}]}
    sent = await ada_calls.post(f"/sessions/{session}/messages", said, Idempotency_Key="once")
    part = sent.body["message"]["parts"][1]
    assert (part["filename"], part["mediaType"]) == ("map.png", "image/png")
    again = await ada_calls.post(f"/sessions/{session}/messages", said, Idempotency_Key="once")
    assert again.body["message"]["id"] == sent.body["message"]["id"]

    async def begin(caller, **part):
        return await caller.post("/sessions", {"agent": "echo", "message": {"parts": [part]}})

    for caller, key in ((ada_calls, str(uuid.uuid4())), (bob_calls, upload["id"])):
        refused = await begin(caller, uploadId=key)
        assert (refused.status, refused.fields) == (422, ["message.parts[0].uploadId"])
    for wrong in ({"mediaType": "text/html"}, {"text": "and words"}):
        assert (await begin(ada_calls, uploadId=upload["id"], **wrong)).status == 422
