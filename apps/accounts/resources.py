"""What people own and do, declared once: the client API, pages, admin and commands are made from it.

A *resource* is a model with a service that saves it. An *act* is one thing that is done to one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any

from django.apps import apps
from django.db.models import Model, OrderBy
from django.utils.module_loading import module_has_submodule

from apps.accounts.permissions import Permission
from apps.accounts.principals import WRITE, Principal, check_allowed
from apps.accounts.requests.quotas import count_act, count_key_change
from apps.accounts.visibility import VisibleQuerySet
from parley.registry import ParleyApp

APPS = "apps."


def faces(name: str) -> list[ModuleType]:
    """The modules `api` or `pages` of all apps, or their `urls` where they are packages: Django finds `admin` so."""
    every = apps.get_app_configs()
    ours = [one for one in every if one.name.startswith(APPS) or isinstance(one, ParleyApp)]
    modules = [import_module(f"{one.name}.{name}") for one in ours if module_has_submodule(one.module, name)]
    return [import_module(f"{one.__name__}.urls") if hasattr(one, "__path__") else one for one in modules]


class NotNeeded(Exception):
    """There is nothing to do for the row. The text says why."""


@dataclass(frozen=True)
class Act[Row: Model]:
    """Something that is done to one row.

    Attributes:
        name: in addresses and commands, such as "pause".
        label: of its button.
        do: does it, and returns the row that it leads to, or what `said` tells of.
            Raises NotNeeded, errors.Refusal, QuotaExceeded.
        summary: what it does, for the reference of the API.
        effect: what follows, in a sentence or two.
        note: what else programs must know, for the reference of the API.
        said: what the caller is told, by what `do` returned.
        is_offered: whether the row's pages offer it.
        scope: what the caller's credential must allow.
        permission: what the caller's role in the workspace must permit, by default what the scope needs. Operators have
            a permission of their own.
        check: refuses callers who see the row, but may not do this to it; not operators.
        starts_work: whether it counts as a start of work of the caller.
        changes_keys: whether it counts as a change of the caller's keys.
        repeats: whether it may be done again after a try that was interrupted.
        is_grave: whether it cannot be undone. The settings ask first; admin asks before every act.
        records: whether `do` writes to the audit itself.
        icon: of its button in admin.
        operator_permission: what operators need, if not the permission to change the row.
    """

    name: str
    label: str
    do: Callable[[Row, Principal], Any]
    summary: str
    effect: str
    said: Callable[[Any], str]
    is_offered: Callable[[Row], bool] = lambda row: True
    scope: str = WRITE
    permission: Permission | None = None
    check: Callable[[Row, Principal], None] = lambda row, principal: None
    starts_work: bool = False
    changes_keys: bool = False
    repeats: bool = True
    is_grave: bool = False
    records: bool = False
    icon: str = ""
    operator_permission: str = ""
    note: str = ""

    @property
    def warning(self) -> str:
        """What a page says before it is done."""
        return f"{self.effect} You cannot undo this." if self.is_grave else self.effect

    def perform(self, principal: Principal, row: Row) -> Any:
        """Do it for a caller. Raises what `admit` and `do` raise."""
        self.admit(principal, row)
        return self.do(row, principal)

    def admit(self, principal: Principal, row: Row) -> None:
        """Whether a caller may do it, which counts against their quotas. Coroutines that do it themselves call this.

        Raises MissingScope, MissingRole, QuotaExceeded, and what `check` raises.
        """
        check_allowed(principal, self.scope, self.permission)
        self.check(row, principal)
        if self.starts_work:
            count_act(principal)
        if self.changes_keys:
            count_key_change(principal)


def pausing[Row: Model](do: Callable[[Row, Principal], Row], what: str, effect: str) -> Act[Row]:
    """Of rows with `paused_at`. `what`: the row in the reference, such as "a schedule"."""
    is_offered = lambda row: row.paused_at is None  # noqa: E731
    return Act("pause", "Pause", do, f"Pause {what}", effect, lambda _: "Paused.", is_offered, icon="pause")


def resuming[Row: Model](do: Callable[[Row, Principal], Row], what: str, effect: str) -> Act[Row]:
    """Of rows with `paused_at`. `what`: the row in the reference, such as "a paused schedule"."""
    is_offered = lambda row: row.paused_at is not None  # noqa: E731
    return Act("resume", "Resume", do, f"Resume {what}", effect, lambda _: "Resumed.", is_offered, icon="play_arrow")


def through[Row: Model](act: Act[Any], path: str, **others: Any) -> Act[Row]:
    """The act for rows that lead by `path` to the one that it is done to. `others`: attributes that differ."""
    get = attrgetter(path)
    redirected: dict[str, Any] = {
        "do": lambda row, principal: act.do(get(row), principal),
        "check": lambda row, principal: act.check(get(row), principal),
        "is_offered": lambda row: act.is_offered(get(row)),
    }
    return replace(act, **redirected, **others)


def deleting[Row: Model](what: str, effect: str) -> Act[Row]:
    """`what`: the row in the reference, with what goes along."""
    said = f"It was deleted. {effect}"
    return Act("delete", "Delete", _delete, f"Delete {what}", effect, lambda _: said, is_grave=True)


def sending_again[Row: Model](retry: Callable[[list[Any]], int], given_up: str, what: str, effect: str) -> Act[Row]:
    """Of rows with a `state`. `retry` queues rows in the state `given_up` again, by their keys, and says how many."""

    def send_again(row: Row, principal: Principal) -> Row:
        if not retry([row.pk]):
            raise NotNeeded("Only what was given up can be sent again.")
        return row

    said = "Queued to be sent again."
    is_offered = lambda row: row.state == given_up  # noqa: E731
    return Act("send-again", "Send again", send_again, what, effect, lambda _: said, is_offered, icon="send")


def save_own[Row: Model](principal: Principal, row: Row) -> Row:
    """The `save` of a resource whose model checks everything. A new row is the caller's, in their workspace.

    Of an old row it saves what is edited, so that an act or a deletion meanwhile stays. Raises ObjectNotUpdated.
    """
    new: Any = row
    if not row._state.adding:
        fields = (field for field in row._meta.concrete_fields if not field.primary_key)
        row.save(update_fields=[one.name for one in fields if one.editable or getattr(one, "auto_now", False)])
        return row
    new.owner_id, new.workspace_id = principal.user_id, principal.workspace_id
    row.save()
    return row


def _delete[Row: Model](row: Row, principal: Principal) -> Row:
    row.delete()
    return row


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
        permission: what the caller's role in the workspace must permit to save one, or to ask for a new one.
        scope: what the caller's credential must allow, to save one.
        rows: of a library's model, whose manager does not know who sees what.
    """

    name: str
    noun: str
    model: type[Row]
    save: Callable[[Principal, Row], Row] | None = None
    acts: tuple[Act[Row], ...] = ()
    related: tuple[str, ...] = ()
    order: tuple[str | OrderBy, ...] = ("-created_at", "-id")
    permission: Permission = Permission.SEND
    scope: str = WRITE
    rows: Callable[[], VisibleQuerySet[Row]] | None = None

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
        rows: Any = self.rows() if self.rows else self.model._default_manager
        found: VisibleQuerySet[Row] = rows.order_by(*self.order)
        return found.select_related(*self.related) if self.related else found

    def store(self, principal: Principal, row: Row) -> Row:
        """Save a row; a new one counts as a start of work.

        Raises MissingScope, MissingRole, QuotaExceeded, and what `save` raises.
        """
        check_allowed(principal, self.scope, self.permission)
        assert self.save is not None
        if row._state.adding:
            count_act(principal)
        return self.save(principal, row)

    def act(self, name: str) -> Act[Row] | None:
        return next((one for one in self.acts if one.name == name), None)
