"""The caller of a request."""

from __future__ import annotations

from dataclasses import dataclass

READ = "tasks:read"
WRITE = "tasks:write"
SCOPES = {READ: "see tasks, conversations and files", WRITE: "send messages and cancel tasks"}
"""What an API key may be limited to."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A user in a workspace, or an anonymous caller. `scopes` of None: all that the user may do."""

    user_id: int | None = None
    workspace_id: int | None = None
    name: str = ""
    scopes: frozenset[str] | None = None

    @property
    def is_known(self) -> bool:
        return self.user_id is not None

    @property
    def sender(self) -> str:
        """The name in idempotency records and quotas; "" if anonymous."""
        return "" if self.user_id is None else f"user:{self.user_id}"

    def may(self, scope: str) -> bool:
        return self.scopes is None or scope in self.scopes


ANONYMOUS = Principal()
