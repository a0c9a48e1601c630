"""What becomes of projects when a person or a workspace goes, and what a person's archive has of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Q

from apps.accounts.models import User
from apps.accounts.people.erasure import Person
from apps.optional.projects.models import Project
from apps.optional.projects.projects import announce, delete

SWEPT_AT_ONCE = 200
FIELDS = ("id", "name", "instructions", "agent__slug", "options", "is_shared", "workspace__name", "created_at")


def forget_person(person: Person) -> None:
    """Hand over what others work in, and delete the rest with its files (`account_erasers`)."""
    ending = Q(owner=person.row) | Q(workspace__in=person.workspaces)
    for project in Project.objects.filter(ending).order_by("pk"):
        heir = person.heir_in(project.workspace_id) if project.is_shared else None
        if heir is None:
            delete(project)
        else:
            project.owner = heir
            project.save(update_fields=["owner"])
            announce(project)


def sweep() -> int:
    """Deletes projects of deleted workspaces. Returns how many."""
    ended = Project.objects.filter(workspace__deleted_at__isnull=False)[:SWEPT_AT_ONCE]
    return len([delete(project) for project in ended])


def personal_data(person: User) -> Iterator[tuple[str, str, Any]]:
    """The person's projects and their files."""
    own = Project.objects.filter(owner=person).order_by("created_at", "pk")
    yield "projects.json", "your projects, and in projects/ their files", list(own.values(*FIELDS))
    for project in own.prefetch_related("files"):
        for file in project.files.all():
            yield f"projects/{project.pk}/{file.name}", "", file.part
