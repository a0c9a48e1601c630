"""Who may see a row, and the one way to read one by its key.

The queryset of a model says in `visible_to` which rows there are for a caller.
"""

from __future__ import annotations

from typing import ClassVar, Self

from django.core.exceptions import ValidationError
from django.db import models

from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal


class VisibleQuerySet[M: models.Model](models.QuerySet[M]):
    """Rows that a caller sees or does not see. `key`: the field by which `find` reads one."""

    key: ClassVar[str] = "pk"
    not_found: ClassVar[type[NotFound] | None] = None

    def visible_to(self, principal: Principal) -> Self:
        """No rows, unless a model says which."""
        return self.none()

    def find(self, principal: Principal, key: object, *, by: str = "") -> M:
        """The row, if the caller may see it. Raises NotFound, also for a key that no row can have.

        `by`: another field than the usual one.
        """
        found = self.find_or_none(principal, key, by=by)
        if found is None:
            raise self.not_found() if self.not_found else NotFound(f"There is no such {self.model._meta.verbose_name}.")
        return found

    def find_or_none(self, principal: Principal, key: object, *, by: str = "") -> M | None:
        if isinstance(key, str) and not key.isprintable():  # no database could compare it
            return None
        try:
            return self.visible_to(principal).filter(**{by or self.key: key}).first()
        except (ValidationError, ValueError):  # not the text of an id
            return None


class OwnedQuerySet[M: models.Model](VisibleQuerySet[M]):
    """Rows that only their owner sees, in the workspace that they are of. Anonymous callers see none.

    `path` leads to the row with owner and workspace, `agent` to the row's agent, if it has one.
    """

    path: ClassVar[str] = ""
    agent: ClassVar[str] = ""

    def visible_to(self, principal: Principal) -> Self:
        if not principal.is_known:
            return self.none()
        own = self.filter(**principal.own(self.path))
        return principal.only_agents(own, self.agent) if self.agent else own
