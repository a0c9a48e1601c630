"""What is done to projects: saving, sharing, deleting. And what the rest of the platform knows of one."""

from __future__ import annotations

import uuid

from django.core.exceptions import ValidationError
from django.db import transaction

from agentkit.content.projects import ENDING
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource, save_own
from apps.agents import options as agent_options
from apps.optional.projects.models import Project, ProjectQuerySet
from apps.record.briefings import Asked, Briefing
from apps.record.content import blobs
from apps.record.content.parts import is_blank
from apps.record.errors import InvalidFields, Kind, Refusal, UnsupportedOperation
from apps.record.events import JSON
from apps.record.projects import ProjectFiles, SessionProject, announce_files, project_of
from parley.db.sql import write_transaction

MOST_PROJECTS = 200  # of one person in a workspace


class NotYours(Refusal):
    """Only the project's owner, or a manager of its workspace, can do this."""

    kind = Kind.FORBIDDEN


class NotEditable(Refusal):
    """Your role in this workspace does not permit you to change this project."""

    kind = Kind.FORBIDDEN


class TooManyProjects(UnsupportedOperation):
    """You have as many projects as one person may have. Delete one first."""


def save(principal: Principal, project: Project) -> Project:
    """Check and save a new or a changed project. Raises InvalidFields, NotEditable, TooManyProjects."""
    if is_blank(project.name):
        raise InvalidFields([("name", "Write a name that can be read.")])
    _check_options(principal, project)
    is_new = project._state.adding
    if not is_new:
        check_editable(project, principal)
    with write_transaction():
        if is_new:
            User.objects.select_for_update().get(pk=principal.user_id or 0)  # two at once must not exceed the limit
            if Project.objects.filter(**principal.own()).count() >= MOST_PROJECTS:
                raise TooManyProjects
        saved = save_own(principal, project)
        _record(AuditAction.PROJECT_CREATED if is_new else AuditAction.PROJECT_CHANGED, saved, principal)
        announce(saved)
    return saved


def _check_options(principal: Principal, project: Project) -> None:
    """Raises InvalidFields."""
    agent = project.agent
    if agent is not None and not agent.is_open_to(principal):
        raise InvalidFields([("agent", "There is no such agent, or you may not use it.")])
    if agent is None:
        project.options = {}
        return
    try:
        project.options = agent_options.read_options(agent, project.options)
    except ValidationError as error:
        raise InvalidFields([("options", " ".join(error.messages))]) from None


def check_editable(project: Project, principal: Principal) -> None:
    """Raises NotEditable."""
    if not project.is_edited_by(principal):
        raise NotEditable


def _check_run(project: Project, principal: Principal) -> None:
    if not project.is_run_by(principal):
        raise NotYours


def _record(action: AuditAction, project: Project, principal: Principal, **details: object) -> None:
    about = {"object": project, "workspace": project.workspace_id, "details": details}
    audit.record(action, actor=principal, **about)  # type: ignore[arg-type]


def _share(project: Project, principal: Principal, *, is_shared: bool) -> Project:
    with write_transaction():
        if not Project.objects.filter(pk=project.pk, is_shared=not is_shared).update(is_shared=is_shared):
            raise NotNeeded("It is shared already." if is_shared else "It is private already.")
        project.is_shared = is_shared
        _record(AuditAction.PROJECT_SHARED, project, principal, sharing="workspace" if is_shared else "private")
    return project


def delete(project: Project, principal: Principal | None = None) -> Project:
    """Delete a project with its files. Its sessions stay, in no project."""
    with write_transaction():
        parts = [one.part for one in project.files.all()]
        blobs.release_uses(project.workspace_id, parts)
        if principal is not None:
            _record(AuditAction.PROJECT_DELETED, project, principal)
        announce(project, is_over=True)
        project.delete()
        digests = [*blobs.stored_files(parts)]
        transaction.on_commit(lambda: blobs.delete_unused(digests), robust=True)
    return project


def announce(project: Project, *, is_over: bool = False) -> None:
    """Tell apps that search projects' files what it has now, in the transaction that changes it."""
    parts = None if is_over else [one.part for one in project.files.order_by("name")]
    announce_files(ProjectFiles(project.pk, project.name, project.owner_id, project.workspace_id, parts))


def visible_projects(principal: Principal) -> ProjectQuerySet:
    """The hook of that name."""
    return Project.objects.visible_to(principal)


SHARE = Act[Project](
    "share", "Share", lambda project, principal: _share(project, principal, is_shared=True),
    "Share a project with its workspace",
    "All members of the workspace see its name, instructions and files. Its sessions stay as private as they are.",
    lambda _: "It is shared with the workspace.", lambda project: not project.is_shared, check=_check_run, records=True,
    icon="group",
)  # fmt: skip
UNSHARE = Act[Project](
    "unshare", "Make private", lambda project, principal: _share(project, principal, is_shared=False),
    "Make a shared project private",
    "Only its owner sees it. Sessions of others stay theirs, and their agents are not told the project any more.",
    lambda _: "It is private.", lambda project: project.is_shared, check=_check_run, records=True, icon="lock",
)  # fmt: skip
DELETE = Act[Project](
    "delete", "Delete", delete, "Delete a project with its files",
    "Its instructions and files are deleted. Its sessions stay, in no project.",
    lambda _: "The project was deleted. Its sessions stay.", check=_check_run, is_grave=True, records=True,
    icon="delete",
)  # fmt: skip
PROJECTS = Resource("projects", "project", Project, save, (SHARE, UNSHARE, DELETE), ("agent",))


def session_project(principal: Principal, key: uuid.UUID) -> SessionProject | None:
    """The hook of that name."""
    found = Project.objects.find_or_none(principal, key)
    if found is None:
        return None
    files = [one.part for one in found.files.order_by("name")]
    return SessionProject(found.pk, found.name, found.instructions, files, found.agent_id, found.options)


def _note(asked: Asked) -> JSON | None:
    """What agents are told, if who asks sees the project."""
    found = project_of(asked.principal, asked.context) if asked.context.project else None
    return found.told if found else None


BRIEFING = Briefing(_note, ENDING)
