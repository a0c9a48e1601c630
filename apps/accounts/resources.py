"""What people own and do, declared once: the client API, pages, admin and commands are made from it.

A *resource* is a model with a service that saves it. An *act* is one thing that is done to one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Model

from apps.accounts.principals import Principal
from apps.accounts.quotas import count_act
from apps.accounts.visibility import VisibleQuerySet


class NotNeeded(Exception):
    """There is nothing to do for the row. The text says why."""


@dataclass(frozen=True)
class Act[Row: Model]:
    """Something that is done to one row.

    Attributes:
        name: in addresses and commands, such as "pause".
        label: of its button.
        do: does it, and returns the row that it leads to. Raises NotNeeded, errors.Refusal, QuotaExceeded.
        summary: what it does, for the reference of the API.
        effect: what follows, in a sentence or two.
        said: what the caller is told, by what `do` returned.
        is_offered: whether the row's pages offer it.
        starts_work: whether it counts as a start of work of the caller.
        repeats: whether it may be done again after a try that was interrupted.
        is_grave: whether it cannot be undone.
        icon: of its button in admin.
    """

    name: str
    label: str
    do: Callable[[Row, Principal], Model]
    summary: str
    effect: str
    said: Callable[[Any], str]
    is_offered: Callable[[Row], bool] = lambda row: True
    starts_work: bool = False
    repeats: bool = True
    is_grave: bool = False
    icon: str = ""

    def perform(self, principal: Principal, row: Row) -> Model:
        """Do it for a caller who may. Raises what `do` raises."""
        if self.starts_work:
            count_act(principal)
        return self.do(row, principal)


@dataclass(frozen=True)
class Resource[Row: Model]:
    """A model whose rows belong to people.

    Attributes:
        name: in addresses, such as "schedules".
        noun: one of them, such as "schedule". Addresses, templates and foreign keys to it have this name.
        save: checks and saves a new or a changed row of a caller, if people write them. Raises errors.Refusal.
        acts: what is done to one row.
        related: relations that all faces show.
        order: of lists.
    """

    name: str
    noun: str
    model: type[Row]
    save: Callable[[Principal, Row], Row] | None = None
    acts: tuple[Act[Row], ...] = ()
    related: tuple[str, ...] = ()
    order: tuple[str, ...] = ("-created_at", "-id")

    @property
    def title(self) -> str:
        """Of the page that lists them."""
        return str(self.model._meta.verbose_name_plural).capitalize()

    def visible_to(self, principal: Principal) -> VisibleQuerySet[Row]:
        return self._rows.visible_to(principal)

    def find(self, principal: Principal, key: object) -> Row:
        """Raises NotFound."""
        return self._rows.find(principal, key)

    @property
    def _rows(self) -> VisibleQuerySet[Row]:
        rows: Any = self.model._default_manager
        found: VisibleQuerySet[Row] = rows.order_by(*self.order)
        return found.select_related(*self.related) if self.related else found

    def store(self, principal: Principal, row: Row) -> Row:
        """Save a row; a new one counts as a start of work. Raises what `save` raises, and QuotaExceeded."""
        assert self.save is not None
        if row._state.adding:
            count_act(principal)
        return self.save(principal, row)

    def act(self, name: str) -> Act[Row] | None:
        return next((one for one in self.acts if one.name == name), None)
