"""What is done to the files and pages of collections: adding, reading again, removing. Their content is stored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django.db import transaction
from django.db.models import F

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.principals import Principal
from apps.optional.knowledge.indexing import SOURCES
from apps.optional.knowledge.models import Collection, Source
from apps.record.content import blobs
from apps.record.content.parts import media_type_of, safe_file_name, size_of
from apps.record.errors import InvalidFields, InvalidParams, Kind, Refusal, UnsupportedOperation
from apps.record.events import JSON
from parley import outbound
from parley.db.sql import database_time, write_transaction
from parley.work.running import do_soon

MOST_SOURCES = 1_000  # of a collection
WATCH_HOURS = range(1, 24 * 90 + 1)
AGAIN = {"state": Source.State.WAITING, "error": "", "tries": 0}  # read it


class CollectionNotEditable(Refusal):
    """You may not change this collection. Files of a project are changed in the project."""

    kind = Kind.FORBIDDEN


class TooManySources(UnsupportedOperation):
    """The collection has as many files and pages as it may have. Remove some first, or make another collection."""


def check_editable(collection: Collection, principal: Principal) -> None:
    """Raises CollectionNotEditable."""
    if not collection.is_edited_by(principal):
        raise CollectionNotEditable


def add_file(principal: Principal, collection: Collection, part: JSON) -> Source:
    """Add a file, a part with its content and `filename`. The content of one of the same name is replaced.

    Raises CollectionNotEditable, InvalidParams, TooManySources, StorageFull.
    """
    check_editable(collection, principal)
    size = size_of(part)
    if not size:
        raise InvalidParams("This file is empty. Choose one that has something in it.", "file")
    name, media_type = safe_file_name(part.get("filename", "")), media_type_of(part)
    [stored] = blobs.store_large([part], inline=0)
    blobs.check_room(collection.workspace_id, [stored])
    values = {"part": stored, "media_type": media_type, "size": size, "url": "", "kind": Source.Kind.FILE, **AGAIN}
    with write_transaction():
        source = _place_for(collection, name)
        _release(collection, [source.part] if source.part else [])
        blobs.count_uses(collection.workspace_id, [stored])
        _save(source, values | {"watch_hours": None, "etag": "", "last_modified": ""})
        _record(principal, collection, added=name)
    return source


def add_page(
    principal: Principal, collection: Collection, url: str, *, name: str = "", watch_hours: int | None = None
) -> Source:
    """Add a page, whose name is by default its title. It is fetched by a worker.

    Raises CollectionNotEditable, InvalidFields, TooManySources.
    """
    check_editable(collection, principal)
    url = url.strip()
    check_page(url, watch_hours)
    with write_transaction():
        _lock(collection)
        if Source.objects.filter(collection=collection, url=url).exists():
            raise InvalidFields([("url", "The collection has this page already.")])
        source = _place_for(collection, (name.strip() or default_name(url))[:200])
        if not source._state.adding:
            raise InvalidFields([("name", "The collection has a source of this name. Choose another name.")])
        _save(source, {"kind": Source.Kind.PAGE, "url": url, "watch_hours": watch_hours, **AGAIN})
        _record(principal, collection, added=source.name)
    return source


def check_page(url: str, watch_hours: int | None) -> None:
    """Raises InvalidFields."""
    try:
        outbound.guard().check(url)
    except outbound.Forbidden as error:
        raise InvalidFields([("url", str(error))]) from None
    if len(url) > 2_000:
        raise InvalidFields([("url", "Give an address of at most 2000 characters.")])
    if watch_hours is not None and watch_hours not in WATCH_HOURS:
        raise InvalidFields([("watchHours", f"Give 1 to {WATCH_HOURS[-1]} hours, or nothing to read it once.")])


def default_name(url: str) -> str:
    """The name of a page until its title is known."""
    return url.partition("://")[2][:200] or url[:200]


def reindex(source: Source, principal: Principal) -> Source:
    """Read a source again, even if it has not changed, or failed before. Raises CollectionNotEditable."""
    check_editable(source.collection, principal)
    with write_transaction():
        _save(source, {**AGAIN, "digest": "", "etag": "", "last_modified": ""})
        _record(principal, source.collection, reindexed=source.name)
    return source


def remove(source: Source, principal: Principal) -> Source:
    """Remove a source with its passages and its content. Raises CollectionNotEditable."""
    check_editable(source.collection, principal)
    with write_transaction():
        delete_sources(source.collection, [source])
        _record(principal, source.collection, removed=source.name)
    return source


def delete_sources(collection: Collection, sources: Sequence[Source]) -> None:
    """Delete sources with their passages, and their content where nothing else uses it, in the open transaction.

    The content of a project's files is the project's.
    """
    Source.objects.filter(pk__in=[one.pk for one in sources]).delete()
    if not collection.has_project_files:
        _release(collection, [one.part for one in sources if one.part])


def _lock(collection: Collection) -> None:
    """So that two at once do not exceed the limit."""
    Collection.objects.select_for_update().get(pk=collection.pk)


def _place_for(collection: Collection, name: str) -> Source:
    """The source of this name, or a new one. Raises TooManySources."""
    _lock(collection)
    source = Source.objects.filter(collection=collection, name=name).first()
    if source is None and Source.objects.filter(collection=collection).count() >= MOST_SOURCES:
        raise TooManySources
    return source or Source(collection=collection, name=name)


def _save(source: Source, values: JSON) -> None:
    """Save it, so that a worker reads it after the commit. One that reads it now is too late."""
    values = values | {"next_try_at": database_time()}
    if source._state.adding:
        for name, value in values.items():
            setattr(source, name, value)
        source.save()
    else:
        Source.objects.filter(pk=source.pk).update(**values, fence=F("fence") + 1, lease_until=None)
        source.refresh_from_db()
    transaction.on_commit(partial(do_soon, SOURCES, source.pk))


def _release(collection: Collection, parts: Sequence[JSON]) -> None:
    blobs.release_uses(collection.workspace_id, parts)
    digests = [*blobs.stored_files(parts)]
    transaction.on_commit(lambda: blobs.delete_unused(digests), robust=True)


def _record(principal: Principal, collection: Collection, **details: str) -> None:
    """The audit has no names of files: what is removed must be gone."""
    collection.save(update_fields=["updated_at"])
    about = {"object": collection, "workspace": collection.workspace_id, "details": {"sources": sorted(details)}}
    audit.record(AuditAction.COLLECTION_CHANGED, actor=principal, **about)  # type: ignore[arg-type]
