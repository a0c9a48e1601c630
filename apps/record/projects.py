"""The project of a session, for all who need it. The app that has projects may be left out: then there is none."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Model

from apps.accounts.principals import Principal
from apps.record.errors import InvalidFields
from apps.record.events import JSON
from apps.record.models import Context
from parley.registry import added


@dataclass(frozen=True, slots=True)
class SessionProject:
    """A project as its sessions know it.

    Attributes:
        key: its id, by which other apps may keep what is theirs.
        instructions: what its people want agents to know and to do.
        files: their stored parts, each with `filename` and `mediaType`.
        agent: the key of the agent that new sessions begin with; None: it has none.
        options: of that agent.
    """

    key: uuid.UUID
    name: str
    instructions: str = ""
    files: Sequence[JSON] = ()
    agent: int | None = None
    options: JSON = field(default_factory=dict)

    @property
    def told(self) -> JSON:
        """What agents are told of it, as a run's input keeps it."""
        about = {"id": str(self.key), "name": self.name, "instructions": self.instructions}
        return about | {"files": [dict(one) for one in self.files]}


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files of a project as they are from now on, for `project_file_listeners`.

    Attributes:
        key: the project's id.
        owner, workspace: the keys of whose it is.
        parts: the stored parts, each with `filename` and `mediaType`; None: the project is deleted.
    """

    key: uuid.UUID
    name: str
    owner: int
    workspace: int
    parts: Sequence[JSON] | None


def announce_files(files: ProjectFiles) -> None:
    """Tell apps that search projects' files. In the transaction that changes them."""
    for listen in added["project_file_listeners"]:
        listen(files)


def find_project(principal: Principal, key: uuid.UUID) -> SessionProject | None:
    """None: the caller sees no such project."""
    find = added.get("session_project") if principal.is_known else None
    found: SessionProject | None = find(principal, key) if find else None
    return found


def check_seen(principal: Principal, key: uuid.UUID | None, row: Model) -> None:
    """Whether a row of the caller's may name this project. One that it names already may be gone.

    Raises InvalidFields.
    """
    if key is None or find_project(principal, key) is not None:
        return
    if not type(row)._default_manager.filter(pk=row.pk, project=key).exists():
        raise InvalidFields([("project", "There is no such project, or you may not see it.")])


def projects_of(principal: Principal) -> list[tuple[uuid.UUID, str]]:
    """Key and name of each project that the caller sees, to choose from."""
    find = added.get("visible_projects") if principal.is_known else None
    return list(find(principal).order_by("name", "pk").values_list("pk", "name")) if find else []


def project_of(principal: Principal, context: Context) -> SessionProject | None:
    """The session's project, if the caller may see it: not everybody who sees a session sees its project.

    No query for a session without one.
    """
    return None if context.project is None else find_project(principal, context.project)
