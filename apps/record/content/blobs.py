"""Large parts: content over `INLINE_PART_BYTES` lives in file storage under its SHA-256, and the part says where.

A stored part is `{"stored": {"sha256", "size" (bytes), "kind": "raw" | "text" | "data"}, "filename"?, "mediaType"?}`.

Files that nothing names any more are deleted: at once where a session was, otherwise by a sweep. A sender writes a file
before the transaction that counts it, and one that is there already is touched instead (`touch`). So a file that was
written or touched lately is left alone: somebody may be about to count it.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from io import BytesIO
from typing import Any, BinaryIO, cast

from celery import shared_task
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db.models import F
from django.utils import timezone

from apps.record.models import Blob, Context

Part = dict[str, Any]


def path_of(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256[2:]}"


def store_large(parts: Iterable[Part]) -> list[Part]:
    """The same parts, with large content moved to file storage. Call it before the transaction: it writes files."""
    return [_stored(part) if _size(part) > settings.INLINE_PART_BYTES else part for part in parts]


def _size(part: Part) -> int:
    """Bytes of a part's content, near enough to decide where it goes."""
    if "raw" in part:
        return len(part["raw"]) * 3 // 4
    if "text" in part:
        return len(part["text"].encode())
    return len(json.dumps(part["data"])) if "data" in part else 0


def _stored(part: Part) -> Part:
    kind = next(name for name in ("raw", "text", "data") if name in part)
    content = content_of(part)
    sha256 = hashlib.sha256(content).hexdigest()
    if not touch(sha256):
        default_storage.save(path_of(sha256), ContentFile(content))
    rest = {name: value for name, value in part.items() if name != kind}
    return {"stored": {"sha256": sha256, "size": len(content), "kind": kind}, **rest}


def touch(sha256: str) -> bool:
    """Is there a file of this content? Then nobody takes it for a forgotten one for a while (`delete_unused`)."""
    try:
        os.utime(default_storage.path(path_of(sha256)))
    except FileNotFoundError:
        return False
    except NotImplementedError:  # a storage that is no file system
        return default_storage.exists(path_of(sha256))
    return True


def open_content(part: Part) -> BinaryIO:
    """A part's content, to be read piece by piece; whoever opens it closes it."""
    if "stored" in part:
        return cast(BinaryIO, default_storage.open(path_of(part["stored"]["sha256"])))
    return BytesIO(content_of(part))


def content_of(part: Part) -> bytes:
    """A part's content: decoded `raw`, UTF-8 of `text`, JSON of `data`, or the file of a stored part."""
    if "stored" in part:
        with default_storage.open(path_of(part["stored"]["sha256"])) as file:
            content: bytes = file.read()
            return content
    if "raw" in part:
        return base64.b64decode(part["raw"])
    if "text" in part:
        return str(part["text"]).encode()
    return json.dumps(part.get("data"), ensure_ascii=False).encode()


def head_of(part: Part, size: int) -> bytes:
    """The first `size` bytes of a part's content, for which no more than about that is read."""
    if "stored" in part:
        with default_storage.open(path_of(part["stored"]["sha256"])) as file:
            content: bytes = file.read(size)
            return content
    if "raw" in part:
        return base64.b64decode(part["raw"][: (size + 2) // 3 * 4])[:size]
    return content_of(part)[:size]


def stored_files(parts: Iterable[Part]) -> dict[str, dict[str, Any]]:
    """What the parts say of content that is kept in files, by its SHA-256."""
    return {part["stored"]["sha256"]: part["stored"] for part in parts if "stored" in part}


def inline(part: Part) -> Part:
    """A stored part with its content back in its place; any other part as it is."""
    if "stored" not in part:
        return part
    kind, content = part["stored"]["kind"], content_of(part)
    rest = {name: value for name, value in part.items() if name != "stored"}
    match kind:
        case "raw":
            return {"raw": base64.b64encode(content).decode(), **rest}
        case "text":
            return {"text": content.decode(), **rest}
        case _:
            return {"data": json.loads(content), **rest}


def count_uses(workspace_id: int, parts: Iterable[Part]) -> None:
    """Count the stored parts for the workspace, inside the transaction that records them."""
    if stored := [part for part in parts if "stored" in part]:
        _count(workspace_id, stored, 1)


def release_uses(workspace_id: int, parts: Iterable[Part]) -> None:
    """Take back what was counted for these parts, inside the transaction that forgets them."""
    _count(workspace_id, parts, -1)


def _count(workspace_id: int, parts: Iterable[Part], sign: int) -> None:
    uses = Counter((part["stored"]["sha256"], part["stored"]["size"]) for part in parts if "stored" in part)
    for (sha256, size), number in sorted(uses.items()):  # in one order, or two transactions might wait for each other
        counted = Blob.objects.filter(workspace_id=workspace_id, sha256=sha256)
        while not counted.update(uses=F("uses") + sign * number):  # also where it was swept just now
            Blob.objects.get_or_create(workspace_id=workspace_id, sha256=sha256, defaults={"size": size})


SWEEP_BATCH = 500
FOLDER_NAME = re.compile(r"[0-9a-f]{2}")
SET_ASIDE = ".gone"
FILE_NAME = re.compile(r"[0-9a-f]{62}")


def delete_unused(digests: Iterable[str]) -> int:
    """Delete the files of those that no workspace uses any more; gives how many there were.

    Call it after the commit that took the uses back. What a crash leaves here, the sweep finds.
    """
    return sum(_delete_file(digest) for digest in _unused(set(digests)))


def _unused(digests: Collection[str]) -> set[str]:
    used = Blob.objects.filter(sha256__in=digests, uses__gt=0).values_list("sha256", flat=True)
    return set(digests) - set(used)


def _delete_file(digest: str) -> bool:
    """Put the file aside, and delete it if it was not touched up to then: who comes later finds none, and writes it."""
    name = path_of(digest)
    if not _is_old(name):
        return False
    with suppress(FileNotFoundError):
        try:
            path = default_storage.path(name)
        except NotImplementedError:
            default_storage.delete(name)
        else:
            os.replace(path, path + SET_ASIDE)
            if not _is_old(name + SET_ASIDE) or not _unused({digest}):
                os.replace(path + SET_ASIDE, path)
                return False
            os.unlink(path + SET_ASIDE)
    Blob.objects.filter(sha256=digest, uses=0).delete()
    return True


def _is_old(name: str) -> bool:
    """Was the file neither written nor touched lately? One that is not there was not."""
    with suppress(FileNotFoundError):
        return default_storage.get_modified_time(name) <= _newest_unused()
    return True


def _newest_unused() -> datetime.datetime:
    return timezone.now() - datetime.timedelta(seconds=settings.UNUSED_FILE_SECONDS)


def sweep_unused() -> int:
    """Delete what was left behind: files that lost their last use, files that were never counted, files of sessions
    that came back from cold storage. Gives how many. It is safe to run it anywhere, at any time, twice."""
    free = Blob.objects.filter(uses=0).order_by("pk").values_list("sha256", flat=True)[:SWEEP_BATCH]
    return delete_unused(free) + _sweep_uncounted() + _sweep_cold_files()


def _sweep_uncounted() -> int:
    """Files that no row of ours knows."""
    deleted = 0
    for folder in filter(FOLDER_NAME.fullmatch, _list_folder("")[0]):
        _restore_set_aside(folder)
        rests = _list_folder(folder)[1]
        deleted += delete_unused(folder + rest for rest in rests if FILE_NAME.fullmatch(rest))
        for rest in rests:  # what two writers at the same moment, or a crash, left beside the file itself
            if not FILE_NAME.fullmatch(rest) and _is_old(f"{folder}/{rest}"):
                default_storage.delete(f"{folder}/{rest}")
                deleted += 1
    return deleted


def _restore_set_aside(folder: str) -> None:
    """Files that somebody had put aside who died then: whether they are used is to be looked at once more."""
    for name in _list_folder(folder)[1]:
        whole = name.removesuffix(SET_ASIDE)
        path = default_storage.path(f"{folder}/{whole}") if whole != name else ""
        if path and not os.path.exists(path):
            with suppress(FileNotFoundError):
                os.replace(path + SET_ASIDE, path)


def _sweep_cold_files() -> int:
    """Files of sessions in cold storage that no session names: they came back, or were never handed over."""
    deleted = 0
    for folder in _list_folder("cold")[0]:
        names = [f"cold/{folder}/{name}" for name in _list_folder(f"cold/{folder}")[1]]
        named = set(Context.objects.filter(cold_file__in=names).values_list("cold_file", flat=True))
        for name in names:
            if name not in named and _is_old(name):
                default_storage.delete(name)
                deleted += 1
    return deleted


def _list_folder(folder: str) -> tuple[list[str], list[str]]:
    """The folders and files in a folder; none where it is not there."""
    with suppress(FileNotFoundError):
        return default_storage.listdir(folder)
    return [], []


@shared_task(name="record.sweep_files")  # type: ignore[untyped-decorator]
def sweep_files() -> None:
    sweep_unused()
