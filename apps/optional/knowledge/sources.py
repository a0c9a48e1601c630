"""The files and pages of collections: adding, replacing, removing them, and having them read again."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F, Sum
from django.http import FileResponse, HttpRequest

from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, Resource
from apps.conversations.public_links.downloads import file_response, resumable_response
from apps.optional.knowledge.collections import NotEditable, check_editable, record
from apps.optional.knowledge.indexing import SOURCES as SOURCES_TO_READ
from apps.optional.knowledge.models import Collection, Source
from apps.optional.knowledge.reading import page_name
from apps.record.content import blobs
from apps.record.content.parts import media_type_of, safe_file_name, size_of
from apps.record.errors import InvalidFields, InvalidParams, UnsupportedOperation
from apps.record.events import JSON
from parley import outbound
from parley.db.sql import database_time, write_transaction
from parley.work.running import do_soon

MOST_SOURCES = 1_000  # of a collection
LONGEST_URL = 2_000  # characters
WATCH_HOURS = range(1, 24 * 90 + 1)
CHANGED = {"digest": "", "etag": "", "last_modified": ""}
"""What says that a source has not changed."""


class TooManySources(UnsupportedOperation):
    """The collection has as many files and pages as it may have. Remove some first, or make another collection."""


def add_file(principal: Principal, collection: Collection, part: JSON) -> Source:
    """Add a file, a part with its content and `filename`. One of the same name is replaced, but no page.

    Raises NotEditable, FollowsProject, InvalidParams, InvalidFields, TooManySources, StorageFull.
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


def add_page(principal: Principal, collection: Collection, url: str, *, watch_hours: int | None = None) -> Source:
    """Add a page, which is called by its title once a worker has fetched it. The same address again is fetched again.

    `watch_hours`: see `watch`; None: as before, for a new one never.

    Raises NotEditable, FollowsProject, InvalidFields, TooManySources.
    """
    check_editable(collection, principal)
    url = url.strip()
    check_page(url, watch_hours)
    with write_transaction():
        page = Source.objects.filter(collection=collection, kind=Source.Kind.PAGE, url=url).first()
        page = page or _new(collection, page_name(url), kind=Source.Kind.PAGE, url=url)
        _have_read(page, **({} if watch_hours is None else {"watch_hours": watch_hours}))
        record(AuditAction.COLLECTION_CHANGED, collection, principal, sources="added")
    return page


def check_page(url: str, watch_hours: int | None) -> None:
    """Raises InvalidFields."""
    try:
        outbound.guard().check(url)
    except outbound.Forbidden as refusal:
        raise InvalidFields([("url", str(refusal))]) from None
    if len(url) > LONGEST_URL:
        raise InvalidFields([("url", f"Give an address of at most {LONGEST_URL} characters.")])
    _check_hours(watch_hours)


def _check_hours(watch_hours: int | None) -> None:
    if watch_hours is not None and watch_hours not in WATCH_HOURS:
        raise InvalidFields([("watchHours", f"Give 1 to {WATCH_HOURS[-1]} hours, or nothing to read it once.")])


def watch(principal: Principal, source: Source, hours: int | None) -> Source:
    """Look for changes of a page every so many hours; None: never.

    Raises NotEditable, FollowsProject, InvalidFields.
    """
    check_editable(source.collection, principal)
    if source.kind != Source.Kind.PAGE:
        raise InvalidFields([("watchHours", "Only a page is watched. Send a changed file again.")])
    _check_hours(hours)
    values: JSON = {"watch_hours": hours}
    if hours is not None and source.checked_at is not None and source.state != Source.State.WAITING:
        values["next_try_at"] = source.checked_at + datetime.timedelta(hours=hours)
    with write_transaction():
        Source.objects.filter(pk=source.pk).update(**values)
        record(AuditAction.COLLECTION_CHANGED, source.collection, principal, sources="watched")
    source.watch_hours = hours
    return source


def reindex(source: Source, principal: Principal) -> Source:
    """Read a source again, even if it has not changed, or failed before. Raises NotEditable."""
    if not source.collection.is_edited_by(principal):
        raise NotEditable
    with write_transaction():
        _have_read(source, **CHANGED)
    return source


def remove(source: Source, principal: Principal) -> Source:
    """Remove a source with its passages and its content. Raises NotEditable, FollowsProject."""
    check_editable(source.collection, principal)
    with write_transaction():
        _delete([source])
        record(AuditAction.COLLECTION_CHANGED, source.collection, principal, sources="removed")
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
        name, kind = part["filename"], Source.Kind.FILE
        source = Source.objects.filter(collection=collection, kind=kind, name=name).first()
        if source is None:
            source = _new(collection, name, kind=kind)
        else:
            _release(source)
        blobs.count_uses(collection.workspace_id, [part])
        _have_read(source, part=part, media_type=part["mediaType"][:200], size=part["stored"]["size"])
        put.append(source)
    return put


def _new(collection: Collection, name: str, **fields: Any) -> Source:
    """A source that is not saved yet. Raises TooManySources, and InvalidFields if the name is taken."""
    Collection.objects.select_for_update().get(pk=collection.pk)  # two at once must not exceed the limit
    others = Source.objects.filter(collection=collection)
    if others.count() >= MOST_SOURCES:
        raise TooManySources
    if others.filter(name=name).exists():
        field = "filename" if fields["kind"] == Source.Kind.FILE else "url"
        raise InvalidFields([(field, "The collection has a file or page of this name. Remove it first.")])
    return Source(collection=collection, name=name, **fields)


def _have_read(source: Source, **values: Any) -> None:
    """Save a source with these values, and have a worker read it. One that reads it now has lost it."""
    values |= {"state": Source.State.WAITING, "tries": 0, "error": "", "next_try_at": database_time()}
    if source._state.adding:
        for name, value in values.items():
            setattr(source, name, value)
        source.save()
    else:
        Source.objects.filter(pk=source.pk).update(**values, fence=F("fence") + 1, lease_until=None)
        source.refresh_from_db()
    transaction.on_commit(partial(do_soon, SOURCES_TO_READ, source.pk), robust=True)


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


def _check_remove(source: Source, principal: Principal) -> None:
    check_editable(source.collection, principal)


REMOVE = Act[Source](
    "delete", "Remove", remove, "Remove a file or a page from a collection",
    "Agents find it no more. What they said of it stays.", lambda source: f"{source.name} was removed.",
    check=_check_remove, is_grave=True, records=True,
)  # fmt: skip
REINDEX = Act[Source](
    "reindex", "Read again", reindex, "Read a file or a page again",
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
