"""The files and pages of collections: adding, replacing, removing them, and having them read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F, Sum
from django.db.models.functions import Now
from django.http import FileResponse, HttpRequest
from django.utils import timezone

from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, Resource
from apps.conversations.public_links.downloads import file_response, resumable_response
from apps.optional.knowledge.collections import check_editable, record
from apps.optional.knowledge.models import Collection, Source
from apps.record.content import blobs
from apps.record.content.composing import callable_url
from apps.record.content.parts import media_type_of, safe_file_name, size_of
from apps.record.errors import InvalidParams, UnsupportedOperation
from apps.record.events import JSON
from parley.db.sql import write_transaction
from parley.work.lists import send_job

MOST_SOURCES = 1_000  # of a collection
MOST_HOURS = 24 * 365  # between two looks at a page
READ = "knowledge.read"
"""The job that reads a source."""


class TooManySources(UnsupportedOperation):
    """The collection has as many files and pages as a collection may have. Remove one first."""


def add_file(principal: Principal, collection: Collection, part: JSON) -> Source:
    """Add a file, a part with its content and `filename`. One of the same name is replaced.

    Raises NotEditable, FollowsProject, InvalidParams, TooManySources, StorageFull.
    """
    check_editable(collection, principal)
    if not size_of(part):
        raise InvalidParams("This file is empty. Choose one that has something in it.", "files")
    name = safe_file_name(part.get("filename", ""))
    [stored] = blobs.store_large([{**part, "filename": name, "mediaType": media_type_of(part)}], inline=0)
    blobs.check_room(collection.workspace_id, [stored])
    with write_transaction():
        [added] = _put_files(collection, [stored])
        record(AuditAction.COLLECTION_CHANGED, collection, principal, sources="added")
    return added


def add_page(principal: Principal, collection: Collection, url: str, watch_hours: int | None = None) -> Source:
    """Add a page by its address, which is fetched soon. The same address again is fetched again.

    Raises NotEditable, FollowsProject, InvalidParams, TooManySources.
    """
    check_editable(collection, principal)
    try:
        callable_url(url)
    except ValueError as wrong:
        raise InvalidParams(str(wrong), "url") from None
    with write_transaction():
        page = Source.objects.filter(collection=collection, kind=Source.Kind.PAGE, url=url).first()
        if page is None:
            _lock(collection)
            page = Source(collection=collection, kind=Source.Kind.PAGE, url=url, name=url[:200])
        _have_read(page, watch_hours=watch_hours)
        record(AuditAction.COLLECTION_CHANGED, collection, principal, sources="added")
    return page


def watch(principal: Principal, source: Source, hours: int | None) -> Source:
    """Look for changes of a page every so many hours; None: never. Raises NotEditable, InvalidParams."""
    check_editable(source.collection, principal)
    if source.kind != Source.Kind.PAGE:
        raise InvalidParams("Only a page is watched. Send a changed file again.", "watchHours")
    with write_transaction():
        Source.objects.filter(pk=source.pk).update(watch_hours=hours, next_try_at=Now())
        record(AuditAction.COLLECTION_CHANGED, source.collection, principal, sources="watched")
    source.watch_hours = hours
    return source


def follow_files(collection: Collection, parts: Sequence[JSON]) -> None:
    """Make these stored files, and no others, the collection's. In a transaction."""
    there = {one.name: one for one in Source.objects.filter(collection=collection)}
    named = {part["filename"]: part for part in parts}
    _delete([one for name, one in there.items() if name not in named])
    kept = {name for name, one in there.items() if one.part and one.part["stored"] == named.get(name, {}).get("stored")}
    _put_files(collection, [part for name, part in named.items() if name not in kept])


def _put_files(collection: Collection, parts: Iterable[JSON]) -> list[Source]:
    """Add or replace files by their names. A replaced file keeps its row, and the passages that stay the same."""
    put = []
    for part in parts:
        file = {"collection": collection, "kind": Source.Kind.FILE, "name": part["filename"]}
        source = Source.objects.filter(**file).first()
        if source is None:
            _lock(collection)
            source = Source(**file)
        else:
            _release(source)
        blobs.count_uses(collection.workspace_id, [part])
        _have_read(source, part=part, media_type=part["mediaType"], size=part["stored"]["size"])
        put.append(source)
    return put


def _lock(collection: Collection) -> None:
    """Keep others from adding meanwhile. Raises TooManySources if there is no room for one more."""
    Collection.objects.select_for_update().get(pk=collection.pk)
    if Source.objects.filter(collection=collection).count() >= MOST_SOURCES:
        raise TooManySources


def _have_read(source: Source, **values: Any) -> None:
    """Save a source with these values, and have a worker read it. One that reads it now has lost it."""
    is_new = source._state.adding
    state = {"state": Source.State.WAITING, "tries": 0, "error": "", "next_try_at": timezone.now()}
    for name, value in {**values, **state}.items():
        setattr(source, name, value)
    if is_new:
        source.save()
    else:
        lost = {"lease_until": None, "fence": F("fence") + 1}
        Source.objects.filter(pk=source.pk).update(**values, **state, **lost)
    key = str(source.pk)
    transaction.on_commit(lambda: send_job(READ, key), robust=True)


def _delete(sources: Sequence[Source]) -> None:
    """Delete rows with their passages, and their content where nothing else uses it."""
    for one in sources:
        _release(one)
    Source.objects.filter(pk__in=[one.pk for one in sources]).delete()


def _release(source: Source) -> None:
    parts = [source.part] if source.part else []
    blobs.release_uses(source.collection.workspace_id, parts)
    digests = [*blobs.stored_files(parts)]
    transaction.on_commit(lambda: blobs.delete_unused(digests), robust=True)


def _remove(source: Source, principal: Principal) -> Source:
    with write_transaction():
        _delete([source])
        record(AuditAction.COLLECTION_CHANGED, source.collection, principal, sources="removed")
    return source


def _reindex(source: Source, principal: Principal) -> Source:
    with write_transaction():
        _have_read(source, digest="", etag="", last_modified="")  # so that it counts as changed
    return source


def _check_remove(source: Source, principal: Principal) -> None:
    check_editable(source.collection, principal)


REMOVE = Act[Source](
    "delete", "Remove", _remove, "Remove a file or a page from a collection",
    "Agents find it no more. What they said of it stays.", lambda source: f"{source.name} was removed.",
    check=_check_remove, is_grave=True, records=True,
)  # fmt: skip
REINDEX = Act[Source](
    "reindex", "Read again", _reindex, "Read a file or a page again",
    "Until it is read, agents find what was read before.", lambda source: f"{source.name} is read again.",
    icon="refresh", starts_work=True,
)  # fmt: skip
SOURCES = Resource("sources", "source", Source, acts=(REMOVE, REINDEX), related=("collection",), order=("name", "id"))


def download(source: Source, request: HttpRequest) -> FileResponse:
    """What was read. Raises NotFound if there is nothing, or it was removed meanwhile."""
    if not source.part:
        raise NotFound("Nothing was read of this yet.")
    try:
        response = file_response(source.part, source.name, is_download=True)
    except FileNotFoundError:
        raise NotFound("This file was removed from the collection.") from None
    return resumable_response(response, source.part["stored"]["sha256"], request)


def stored_size() -> tuple[str, int, int]:
    """For `storage_meters`: name, bytes and number of files and pages in collections."""
    found: dict[str, Any] = Source.objects.aggregate(bytes=Sum("size"))
    return "knowledge", found["bytes"] or 0, Source.objects.count()
