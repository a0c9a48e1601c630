"""Large parts: content over `INLINE_PART_BYTES` is in file storage under its SHA-256.

A stored part is `{"stored": {"sha256", "size" (bytes), "kind": "raw" | "text" | "data"}, "filename"?, "mediaType"?}`.

Unused files are deleted with their session, or by a sweep. A sender writes a file, or touches an existing one, before
the transaction that counts it. So recent files are never deleted: somebody may be about to count them.
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

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db.models import F, Sum
from django.utils import timezone

from apps.limits.current import LimitExceeded, snapshot
from apps.limits.models import Kind
from apps.record.errors import InvalidParams, StorageFull
from apps.record.events import PART_HOLDERS
from apps.record.models import Blob, Context, Event

Part = dict[str, Any]


def path_of(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256[2:]}"


MAX_CHARACTER_BYTES = 4  # in UTF-8


def store_large(parts: Iterable[Part], most_data: int | None = None, *, inline: int | None = None) -> list[Part]:
    """The parts, with large content moved to file storage. Call it before the transaction: it writes files.

    `inline`: up to how many bytes stay; by default `INLINE_PART_BYTES`.
    Raises InvalidParams for a data part of more than `most_data` bytes of JSON.
    """
    moved, most_inline = [], settings.INLINE_PART_BYTES if inline is None else inline
    for part in parts:
        kind = next((name for name in ("raw", "text", "data") if name in part), None)
        is_short = kind in ("raw", "text") and len(part[kind]) * MAX_CHARACTER_BYTES <= most_inline
        if kind is None or is_short or len(content := content_of(part)) <= most_inline:
            moved.append(part)
            continue
        if kind == "data" and most_data is not None and len(content) > most_data:
            raise InvalidParams(f"A data part has more than {most_data // 1024} kB. Send it as a file.", "parts")
        sha256 = hashlib.sha256(content).hexdigest()
        if not touch(sha256):
            default_storage.save(path_of(sha256), ContentFile(content))
        rest = {name: value for name, value in part.items() if name != kind}
        moved.append({"stored": {"sha256": sha256, "size": len(content), "kind": kind}, **rest})
    return moved


def check_room(workspace_id: int | None, parts: Iterable[Part], more: int = 0) -> None:
    """Raises StorageFull if the workspace has no room for these stored parts and `more` bytes.

    Asks the database only where storage is limited.
    """
    added = more + sum(file["size"] for file in stored_files(parts).values())
    for holder, limit in snapshot().limits(Kind.STORAGE, workspace_id) if added else ():
        if (used := used_bytes(workspace_id)) + added > limit:
            raise StorageFull(LimitExceeded(Kind.STORAGE, holder.whose, limit, used, 0))


def used_bytes(workspace_id: int | None) -> int:
    """What the workspace's files take."""
    used = Blob.objects.filter(workspace=workspace_id, uses__gt=0).aggregate(sum=Sum("size"))["sum"]
    return int(used or 0)


def touch(sha256: str) -> bool:
    """Does this file exist? Then its new time protects it from `delete_unused` for a while."""
    try:
        os.utime(default_storage.path(path_of(sha256)))
    except FileNotFoundError:
        return False
    except NotImplementedError:  # a storage that is no file system
        return default_storage.exists(path_of(sha256))
    return True


def open_content(part: Part) -> BinaryIO:
    """A part's content as a file, which the caller closes."""
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
    """The first `size` bytes of a part's content, read alone."""
    if "stored" in part:
        with default_storage.open(path_of(part["stored"]["sha256"])) as file:
            content: bytes = file.read(size)
            return content
    if "raw" in part:
        return base64.b64decode(part["raw"][: (size + 2) // 3 * 4])[:size]
    return content_of(part)[:size]


def stored_parts(events: Iterable[Event]) -> list[Part]:
    """The stored parts of events, as `Event.parts` has them."""
    found: list[Part] = []
    for event in events:
        if not event.payload.keys().isdisjoint(PART_HOLDERS):
            holder: Part = next((one for name in PART_HOLDERS if (one := event.payload.get(name))), {})
            found += [part for part in holder.get("parts", ()) if "stored" in part]
    return found


def stored_files(parts: Iterable[Part]) -> dict[str, dict[str, Any]]:
    """The `stored` of parts, by SHA-256."""
    return {part["stored"]["sha256"]: part["stored"] for part in parts if "stored" in part}


def inline(part: Part) -> Part:
    """A stored part with its content; any other part unchanged."""
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
    _count(workspace_id, parts, 1)


def release_uses(workspace_id: int, parts: Iterable[Part]) -> None:
    """Reverse `count_uses`, inside the transaction that deletes the parts."""
    _count(workspace_id, parts, -1)


def _count(workspace_id: int, parts: Iterable[Part], sign: int) -> None:
    uses = Counter((part["stored"]["sha256"], part["stored"]["size"]) for part in parts if "stored" in part)
    for (sha256, size), number in sorted(uses.items()):  # in one order, so that transactions cannot deadlock
        counted = Blob.objects.filter(workspace_id=workspace_id, sha256=sha256)
        while not counted.update(uses=F("uses") + sign * number):  # the sweep may delete the row meanwhile
            Blob.objects.get_or_create(workspace_id=workspace_id, sha256=sha256, defaults={"size": size})


SWEEP_BATCH = 500
FOLDER_NAME = re.compile(r"[0-9a-f]{2}")
SET_ASIDE = ".gone"
FILE_NAME = re.compile(r"[0-9a-f]{62}")


def delete_unused(digests: Iterable[str]) -> int:
    """Delete the files that no workspace uses; gives their number.

    Call it after the commit that released them. The sweep finds what a crash leaves.
    """
    return sum(_delete_file(digest) for digest in _unused(set(digests)))


def _unused(digests: Collection[str]) -> set[str]:
    used = Blob.objects.filter(sha256__in=digests, uses__gt=0).values_list("sha256", flat=True)
    return set(digests) - set(used)


def _delete_file(digest: str) -> bool:
    """Rename the file, and delete it unless it was touched: later senders find none and write it again."""
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
    """Was the file neither written nor touched lately? True if it does not exist."""
    with suppress(FileNotFoundError):
        return default_storage.get_modified_time(name) <= _newest_unused()
    return True


def _newest_unused() -> datetime.datetime:
    return timezone.now() - datetime.timedelta(seconds=settings.UNUSED_FILE_SECONDS)


def sweep_unused() -> int:
    """Deletes stored files that nothing uses any more, and archives that nothing names.

    Gives their number. Safe at any time, and in parallel.
    """
    free = Blob.objects.filter(uses=0).order_by("pk").values_list("sha256", flat=True)[:SWEEP_BATCH]
    return delete_unused(free) + _sweep_uncounted() + _sweep_cold_files()


def _sweep_uncounted() -> int:
    """Files without a row."""
    deleted = 0
    for folder in filter(FOLDER_NAME.fullmatch, _list_folder("")[0]):
        _restore_set_aside(folder)
        rests = _list_folder(folder)[1]
        deleted += delete_unused(folder + rest for rest in rests if FILE_NAME.fullmatch(rest))
        for rest in rests:  # left by simultaneous writers or a crash
            if not FILE_NAME.fullmatch(rest) and _is_old(f"{folder}/{rest}"):
                default_storage.delete(f"{folder}/{rest}")
                deleted += 1
    return deleted


def _restore_set_aside(folder: str) -> None:
    """Rename files back that a crashed `_delete_file` left, so that they are checked again."""
    for name in _list_folder(folder)[1]:
        whole = name.removesuffix(SET_ASIDE)
        path = default_storage.path(f"{folder}/{whole}") if whole != name else ""
        if path and not os.path.exists(path):
            with suppress(FileNotFoundError):
                os.replace(path + SET_ASIDE, path)


def _sweep_cold_files() -> int:
    """Archives that no session names: of restored sessions, or of a crash before the commit."""
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
    """The folders and files in a folder; none if it does not exist."""
    with suppress(FileNotFoundError):
        return default_storage.listdir(folder)
    return [], []
