"""Collections follow their project, person and workspace; and what a person's archive has of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Q

from apps.accounts.models import User
from apps.accounts.people.erasure import Person
from apps.optional.knowledge.collections import delete
from apps.optional.knowledge.models import AgentCollection, Collection
from apps.optional.knowledge.sources import follow_files
from apps.record.projects import ProjectFiles, find_project

SWEPT_AT_ONCE = 50
FILES_OF = "Files of {}"
FIELDS = ("id", "name", "description", "project", "is_shared", "workspace__name", "created_at")
SOURCE_FIELDS = ("id", "collection", "kind", "name", "url", "media_type", "size", "watch_hours", "created_at")


def follow_project(files: ProjectFiles) -> None:
    """Keep the collection of a project's files in step (`project_file_listeners`)."""
    own = Collection.objects.filter(project=files.key)
    if not files.parts:
        for one in own.filter(has_project_files=True):
            delete(one)
    if files.parts is None:
        own.update(project=None, is_shared=False)
    elif files.parts:
        named = {"name": FILES_OF.format(files.name)[:100], "owner_id": files.owner, "workspace_id": files.workspace}
        collection, _ = Collection.objects.update_or_create(project=files.key, has_project_files=True, defaults=named)
        follow_files(collection, files.parts)


def forget_person(person: Person) -> None:
    """Hand over what others use, and delete the rest with its passages and files (`account_erasers`)."""
    ending = Q(owner=person.row) | Q(workspace__in=person.workspaces)
    for collection in Collection.objects.filter(ending).order_by("pk"):
        heir = _heir_of(collection, person)
        if heir is None:
            delete(collection)
        else:
            Collection.objects.filter(pk=collection.pk).update(owner=heir)


def _heir_of(collection: Collection, person: Person) -> User | None:
    """Who owns it from now on: somebody who sees it already."""
    heir = person.heir_in(collection.workspace_id)
    if heir is None or collection.project is None:
        return heir if collection.is_shared else None
    return heir if find_project(heir.principal_in(collection.workspace_id), collection.project) else None


def sweep() -> int:
    """Deletes collections of deleted workspaces. Returns how many."""
    ended = Collection.objects.filter(workspace__deleted_at__isnull=False)[:SWEPT_AT_ONCE]
    return len([delete(collection) for collection in ended])


def personal_data(person: User) -> Iterator[tuple[str, str, Any]]:
    """The person's collections, and what they put into them. Passages are parts of these files and pages."""
    own = Collection.objects.filter(owner=person, has_project_files=False).order_by("created_at", "pk")
    given = AgentCollection.objects.filter(collection__in=own).order_by("pk")
    collections = list(own.values(*FIELDS))
    for one in collections:
        one["agents"] = list(given.filter(collection=one["id"]).values("agent__slug", "is_for_callers"))
    yield "collections.json", "your collections, and in collections/ their files", collections
    for collection in own.prefetch_related("sources"):
        sources = collection.sources.order_by("created_at", "pk")
        yield f"collections/{collection.pk}/sources.json", "", list(sources.values(*SOURCE_FIELDS))
        for source in sources:
            if source.part:
                name = source.name if source.kind == source.Kind.FILE else f"pages/{source.pk}"
                yield f"collections/{collection.pk}/{name}", "", source.part
