"""Large parts: content over `INLINE_PART_BYTES` lives in file storage under its SHA-256, and the part says where.

A stored part is `{"stored": {"sha256", "size" (bytes), "kind": "raw" | "text" | "data"}, "filename"?, "mediaType"?}`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from io import BytesIO
from typing import Any, BinaryIO, cast

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db.models import F

from apps.record.models import Blob

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
    """Is there a file of this content? Then nobody takes it for a forgotten one for a while (`unused_blobs`)."""
    try:
        os.utime(default_storage.path(path_of(sha256)))
    except FileNotFoundError:
        return False
    except NotImplementedError:  # a storage that is no file system
        return default_storage.exists(path_of(sha256))
    return True


def opened(part: Part) -> BinaryIO:
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


def beginning_of(part: Part, size: int) -> bytes:
    """The first `size` bytes of a part's content, for which no more than about that is read."""
    if "stored" in part:
        with default_storage.open(path_of(part["stored"]["sha256"])) as file:
            content: bytes = file.read(size)
            return content
    if "raw" in part:
        return base64.b64decode(part["raw"][: (size + 2) // 3 * 4])[:size]
    return content_of(part)[:size]


def kept(parts: Iterable[Part]) -> dict[str, dict[str, Any]]:
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


def are_stored(parts: Iterable[Part]) -> bool:
    """Is any of these parts kept in files?"""
    return any("stored" in part for part in parts)


def count_uses(workspace_id: int, parts: Iterable[Part]) -> None:
    """Count the stored parts for the workspace, inside the transaction that records them."""
    _count(workspace_id, parts, 1)


def release(workspace_id: int, parts: Iterable[Part]) -> None:
    """Take back what was counted for these parts, inside the transaction that forgets them."""
    _count(workspace_id, parts, -1)


def _count(workspace_id: int, parts: Iterable[Part], sign: int) -> None:
    uses = Counter((part["stored"]["sha256"], part["stored"]["size"]) for part in parts if "stored" in part)
    for (sha256, size), number in sorted(uses.items()):  # in one order, or two transactions might wait for each other
        counted = Blob.objects.filter(workspace_id=workspace_id, sha256=sha256)
        while not counted.update(uses=F("uses") + sign * number):  # also where it was swept just now
            Blob.objects.get_or_create(workspace_id=workspace_id, sha256=sha256, defaults={"size": size})
