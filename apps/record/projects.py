"""The project of a session, for all who need it. The app that has projects may be left out: then there is none."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

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


def find_project(principal: Principal, key: uuid.UUID) -> SessionProject | None:
    """None: the caller sees no such project."""
    find = added.get("session_project") if principal.is_known else None
    found: SessionProject | None = find(principal, key) if find else None
    return found


def check_seen(principal: Principal, key: uuid.UUID | None) -> None:
    """Whether something of the caller's may name this project. Raises InvalidFields."""
    if key is not None and find_project(principal, key) is None:
        raise InvalidFields([("project", "There is no such project, or you may not see it.")])


def projects_of(principal: Principal) -> list[tuple[uuid.UUID, str]]:
    """Key and name of each project that the caller sees, to choose from."""
    listed = added.get("session_projects") if principal.is_known else None
    found: list[tuple[uuid.UUID, str]] = listed(principal) if listed else []
    return found


def project_of(principal: Principal, context: Context) -> SessionProject | None:
    """The session's project, if the caller may see it: not everybody who sees a session sees its project.

    No query for a session without one.
    """
    return None if context.project is None else find_project(principal, context.project)
