"""Files that nothing names any more are deleted: at once where a session was, otherwise by a sweep.

A sender writes a file before the transaction that counts it, and one that is there already is touched instead
(`blobs.touch`). So a file that was written or touched lately is left alone: somebody may be about to count it.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress

from django.conf import settings
from django.core.files.storage import default_storage
from django.utils import timezone

from apps.record import blobs
from apps.record.models import Blob, Context

AT_ONCE = 500
FOLDER = re.compile(r"[0-9a-f]{2}")
ASIDE = ".gone"
REST = re.compile(r"[0-9a-f]{62}")


def delete(digests: Iterable[str]) -> int:
    """Delete the files of those that no workspace uses any more; gives how many there were.

    Call it after the commit that took the uses back. What a crash leaves here, the sweep finds.
    """
    return sum(_delete(digest) for digest in _unused(set(digests)))


def _unused(digests: Collection[str]) -> set[str]:
    used = Blob.objects.filter(sha256__in=digests, uses__gt=0).values_list("sha256", flat=True)
    return set(digests) - set(used)


def _delete(digest: str) -> bool:
    """Put the file aside, and delete it if it was not touched up to then: who comes later finds none, and writes it."""
    name = blobs.path_of(digest)
    if not _is_old(name):
        return False
    with suppress(FileNotFoundError):
        try:
            path = default_storage.path(name)
        except NotImplementedError:
            default_storage.delete(name)
        else:
            os.replace(path, path + ASIDE)
            if not _is_old(name + ASIDE) or not _unused({digest}):
                os.replace(path + ASIDE, path)
                return False
            os.unlink(path + ASIDE)
    Blob.objects.filter(sha256=digest, uses=0)._raw_delete(Blob.objects.db)
    return True


def _is_old(name: str) -> bool:
    """Was the file neither written nor touched lately? One that is not there was not."""
    with suppress(FileNotFoundError):
        return default_storage.get_modified_time(name) <= _lately()
    return True


def _lately() -> datetime.datetime:
    return timezone.now() - datetime.timedelta(seconds=settings.UNUSED_FILE_SECONDS)


def sweep() -> int:
    """Delete what was left behind: files that lost their last use, files that were never counted, files of sessions
    that came back from cold storage. Gives how many. It is safe to run it anywhere, at any time, twice."""
    free = Blob.objects.filter(uses=0).order_by("pk").values_list("sha256", flat=True)[:AT_ONCE]
    return delete(free) + _uncounted() + _unnamed()


def _uncounted() -> int:
    """Files that no row of ours knows."""
    deleted = 0
    for folder in filter(FOLDER.fullmatch, _listed("")[0]):
        _put_back(folder)
        rests = _listed(folder)[1]
        deleted += delete(folder + rest for rest in rests if REST.fullmatch(rest))
        for rest in rests:  # what two writers at the same moment, or a crash, left beside the file itself
            if not REST.fullmatch(rest) and _is_old(f"{folder}/{rest}"):
                default_storage.delete(f"{folder}/{rest}")
                deleted += 1
    return deleted


def _put_back(folder: str) -> None:
    """Files that somebody had put aside who died then: whether they are used is to be looked at once more."""
    for name in _listed(folder)[1]:
        whole = name.removesuffix(ASIDE)
        path = default_storage.path(f"{folder}/{whole}") if whole != name else ""
        if path and not os.path.exists(path):
            with suppress(FileNotFoundError):
                os.replace(path + ASIDE, path)


def _unnamed() -> int:
    """Files of sessions in cold storage that no session names: they came back, or were never handed over."""
    deleted = 0
    for folder in _listed("cold")[0]:
        names = [f"cold/{folder}/{name}" for name in _listed(f"cold/{folder}")[1]]
        named = set(Context.objects.filter(cold_file__in=names).values_list("cold_file", flat=True))
        for name in names:
            if name not in named and _is_old(name):
                default_storage.delete(name)
                deleted += 1
    return deleted


def _listed(folder: str) -> tuple[list[str], list[str]]:
    """The folders and files in a folder; none where it is not there."""
    with suppress(FileNotFoundError):
        return default_storage.listdir(folder)
    return [], []
