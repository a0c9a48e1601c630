"""The files of projects: adding, replacing and removing them. Their content is in the file storage."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Count, Sum
from django.http import FileResponse, HttpRequest

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, Resource
from apps.conversations.public_links.downloads import file_response, resumable_response
from apps.optional.projects.models import Project, ProjectFile
from apps.optional.projects.projects import announce, check_editable
from apps.record.content import blobs
from apps.record.content.parts import media_type_of, safe_file_name, size_of
from apps.record.errors import InvalidParams, UnsupportedOperation
from apps.record.events import JSON
from parley.db.sql import write_transaction

MOST_FILES = 50  # of a project


class TooManyFiles(UnsupportedOperation):
    """The project has as many files as a project may have. Remove one first."""


def add(principal: Principal, project: Project, part: JSON) -> ProjectFile:
    """Add a file, a part with its content and `filename`. One of the same name is replaced.

    Raises NotEditable, InvalidParams, TooManyFiles, StorageFull.
    """
    check_editable(project, principal)
    if not size_of(part):
        raise InvalidParams("This file is empty. Choose one that has something in it.", "files")
    name, media_type = safe_file_name(part.get("filename", "")), media_type_of(part)
    [stored] = blobs.store_large([part], inline=0)
    blobs.check_room(project.workspace_id, [stored])
    with write_transaction():
        Project.objects.select_for_update().get(pk=project.pk)  # two at once must not exceed the limit
        replaced = list(ProjectFile.objects.filter(project=project, name=name))
        if not replaced and ProjectFile.objects.filter(project=project).count() >= MOST_FILES:
            raise TooManyFiles
        _release(project, replaced)
        blobs.count_uses(project.workspace_id, [stored])
        added = ProjectFile.objects.create(project=project, name=name, media_type=media_type, **stored["stored"])
        _record_change(principal, project, added=name)
    return added


def remove(file: ProjectFile, principal: Principal) -> ProjectFile:
    """Remove a file. What agents were told of it before stays in their sessions. Raises NotEditable."""
    check_editable(file.project, principal)
    with write_transaction():
        _release(file.project, [file])
        _record_change(principal, file.project, removed=file.name)
    return file


def _release(project: Project, files: list[ProjectFile]) -> None:
    """Delete rows, and their content where nothing else uses it."""
    parts = [one.part for one in files]
    blobs.release_uses(project.workspace_id, parts)
    ProjectFile.objects.filter(pk__in=[one.pk for one in files]).delete()
    digests = [*blobs.stored_files(parts)]
    transaction.on_commit(lambda: blobs.delete_unused(digests), robust=True)


def _record_change(principal: Principal, project: Project, **details: str) -> None:
    project.save(update_fields=["updated_at"])
    announce(project)
    audit.record(
        AuditAction.PROJECT_CHANGED,
        actor=principal,
        object=project,
        workspace=project.workspace_id,
        details={"files": sorted(details)},
    )


def download(file: ProjectFile, request: HttpRequest) -> FileResponse:
    """Its content, as a download that can be resumed. Raises NotFound if it was removed just now."""
    try:
        response = file_response(file.part, file.name, is_download=True)
    except FileNotFoundError:
        raise NotFound("This file was removed from the project.") from None
    return resumable_response(response, file.sha256, request)


REMOVE = Act[ProjectFile](
    "delete", "Remove", remove, "Remove a file from a project",
    "Agents are not given it any more. What they said of it stays.", lambda file: f"{file.name} was removed.",
    is_grave=True, records=True,
)  # fmt: skip
FILES = Resource("files", "project_file", ProjectFile, acts=(REMOVE,), related=("project",), order=("name", "id"))


def stored_size() -> tuple[str, int, int]:
    """For `storage_meters`: name, bytes and number of files of projects."""
    found = ProjectFile.objects.aggregate(rows=Count("pk"), bytes=Sum("size"))
    return "projects", found["bytes"] or 0, found["rows"]
