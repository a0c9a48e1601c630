"""A caller, as every other part of the house sees one."""

from __future__ import annotations

from dataclasses import dataclass

READ = "tasks:read"
WRITE = "tasks:write"
SCOPES = {READ: "see tasks, conversations and files", WRITE: "send messages and cancel tasks"}
"""What an API key may be limited to."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling: a known user in a workspace, or nobody in particular.

    `scopes` of None means everything the user may do.
    """

    user_id: int | None = None
    workspace_id: int | None = None
    name: str = ""
    scopes: frozenset[str] | None = None

    @property
    def is_known(self) -> bool:
        return self.user_id is not None

    @property
    def sender(self) -> str:
        """The key under which this caller's messages are remembered; empty for an anonymous caller."""
        return f"user:{self.user_id}" if self.is_known else ""

    def may(self, scope: str) -> bool:
        return self.scopes is None or scope in self.scopes


ANONYMOUS = Principal()
