"""Buttons and list actions made from `bulk.RowAction`s, and the pages of bulk actions."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet, UUIDField
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import path
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from unfold.dataclasses import ActionDialog
from unfold.decorators import action as page_action

from apps.accounts.models import User
from apps.accounts.resources import Act, Resource
from apps.operators import bulk
from apps.operators.bulk import ACTIONS, AT_ONCE, MOST_ROWS, Doing, Result, RowAction
from apps.operators.models import BulkAction, BulkRow
from apps.record.models import Task
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, ReadOnlyAdmin, column, redirect_dialog, related_cell, time_cell
from parley.faces.cells import Tone

TASK_NAMED = re.compile(r"(?<=task )([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
SHOWN_ROWS = 500  # results on a page
FLASH = "bulk-action"  # in the session: the action whose results the next list shows
LEVELS = {
    BulkRow.Outcome.DONE: messages.SUCCESS,
    BulkRow.Outcome.SKIPPED: messages.WARNING,
    BulkRow.Outcome.FAILED: messages.ERROR,
}
OUTCOME_TONES = {
    BulkRow.Outcome.WAITING: Tone.QUEUED,
    BulkRow.Outcome.STARTED: Tone.WORKING,
    BulkRow.Outcome.DONE: Tone.DONE,
    BulkRow.Outcome.SKIPPED: Tone.STOPPED,
    BulkRow.Outcome.FAILED: Tone.FAILED,
}
STATE_TONES = {
    BulkAction.State.ASKED: Tone.WAITING,
    BulkAction.State.RUNNING: Tone.WORKING,
    BulkAction.State.DONE: Tone.DONE,
    BulkAction.State.STOPPED: Tone.STOPPED,
}


def list_action(action: RowAction, permission: str) -> Any:
    """An action of a list, on chosen rows. `permission` is the name in admin of what the action requires."""

    @admin.action(description=action.label, permissions=[permission])
    def run(self: ActingAdmin, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        return self.act_on_rows(request, action, rows)

    return run


def button(action: RowAction, permission: str) -> Any:
    """A button of a row's page, which asks first. `permission` as of `list_action`."""
    address = button_path(action)

    def run(self: ActingAdmin, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        self.act_on_row(request, action, object_id)
        row = action.rows().filter(pk=object_id).first()
        return redirect_dialog(self.model, None) if row is None else self.page_after(action, row)

    run.__name__ = address.replace("-", "_")
    dialog = ActionDialog(title=action.question, description=action.effect, form_submit_text=action.label)
    described = {"description": action.label, "icon": action.icon, "url_path": address}
    return page_action(permissions=[permission], dialog=dialog, **described)(run)


def button_path(act: Act[Any] | RowAction) -> str:
    """The end of the address of an act's button. ModelAdmin has attributes of some acts' names, such as `delete`."""
    return f"{act.name}_now" if hasattr(ConsoleAdmin, act.name) else act.name


def admin_of(model: type[Model]) -> Any:
    """The class of a model's admin, taken out of the site: an app subclasses it, adds acts, and registers it again."""
    found = type(admin.site.get_model_admin(model))
    admin.site.unregister(model)
    return found


class ActingAdmin(ConsoleAdmin):
    """An admin whose lists show the results of their last action, row by row.

    Attributes:
        resource: what it shows, if people have it too.
        acts: what operators do to its rows: a button of the page, and an action of the list, such as `pause` and
            `pause_selected`. Both stand after those that the class declares itself. Buttons after the first BUTTONS
            are in a menu. A subclass's own stand before those that it inherits.
    """

    BUTTONS = 4

    list_before_template = "admin/console/narrowed.html"
    resource: ClassVar[Resource[Any] | None] = None
    acts: ClassVar[tuple[Act[Any] | RowAction, ...]] = ()

    _declared: ClassVar[tuple[Any, ...]] = ()  # buttons besides those of acts

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        own, inherited = cls.__dict__.get("acts", ()), super(cls, cls).acts
        for act in own:
            action = act if isinstance(act, RowAction) else cls._registered(act)
            cls.operate_permission = cls.operate_permission or action.permission
            need, of_list = cls._permission_of(action), f"{action.name}_selected".replace("-", "_")
            pressed = button(action, need)
            setattr(cls, pressed.__name__, pressed)
            if of_list not in cls.__dict__:
                setattr(cls, of_list, list_action(action, need))
            cls.actions = [*(cls.actions or ()), of_list]
        cls.acts = (*own, *inherited)
        cls._declared = tuple(cls.__dict__.get("actions_detail") or cls._declared)
        names: list[Any] = [button_path(act).replace("-", "_") for act in cls.acts]
        if names[cls.BUTTONS :]:
            names[cls.BUTTONS :] = [{"title": "More", "items": names[cls.BUTTONS :]}]
        cls.actions_detail = [*cls._declared, *names]

    @classmethod
    def _registered(cls, act: Act[Any]) -> RowAction:
        assert cls.resource is not None
        options = cls.resource.model._meta
        cls.operate_permission = cls.operate_permission or f"{options.app_label}.change_{options.model_name}"
        permission = act.operator_permission or cls.operate_permission
        return bulk.register_act(
            cls.resource, act, permission, select_related=cls.select_related, deferred=cls.deferred
        )

    @classmethod
    def _permission_of(cls, action: RowAction) -> str:
        """The name in admin of what operators need for the action."""
        if action.permission == cls.operate_permission:
            return "operate"
        needed = lambda self, request, object_id=None: request.user.has_perm(action.permission)  # noqa: E731
        name = action.name.replace("-", "_")
        setattr(cls, f"has_{name}_permission", needed)
        return name

    def is_offered(self, action: str, row: Any) -> bool:
        return all(act.is_offered(row) for act in self.acts if button_path(act) == action)

    def page_after(self, action: RowAction, row: Any) -> HttpResponse:
        """Where a button leads that has been pressed, if the row is there still."""
        return redirect_dialog(self.model, row.pk)

    def act_on_row(self, request: HttpRequest, action: RowAction, key: object) -> Result | None:
        """Act on one row, and tell the operator. None if there is no such row that they may see."""
        visible = self.get_queryset(request).filter(pk=key).values("pk")
        row = action.rows().filter(pk__in=visible).first()
        if row is None:
            return None
        operator: User = request.user  # type: ignore[assignment]
        if not operator.has_perm(action.permission):
            raise PermissionDenied
        result = bulk.act(action, row, Doing(operator, uuid.uuid4(), before=action.mark(row)))
        messages.add_message(request, LEVELS[result.outcome], with_links(result.note))
        return result

    def act_on_rows(self, request: HttpRequest, action: RowAction, rows: QuerySet[Any]) -> HttpResponse | None:
        """Ask whether to act on chosen rows."""
        operator: User = request.user  # type: ignore[assignment]
        if not operator.has_perm(action.permission):
            raise PermissionDenied
        if len(keys := bulk.keys_of(rows)) > MOST_ROWS:
            messages.error(request, f"Nothing was done: more than {MOST_ROWS:,} rows are chosen. Narrow the filter.")
            return None
        asked = bulk.choose(action, operator, keys, request.GET.urlencode())
        return redirect(cells.page_url(BulkAction, asked.pk))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        more: dict[str, Any] = {}
        if request.method == "GET" and (key := request.session.pop(FLASH, None)):
            last = BulkAction.objects.filter(pk=key, operator=request.user.pk).first()
            more = {"results": results_panel(last, request.user)} if last else {}
        return super().changelist_view(request, {**more, **(extra_context or {})})


def may_view(viewer: User, model: type[Model]) -> bool:
    return viewer.has_perm(f"{model._meta.app_label}.view_{model._meta.model_name}")


def with_links(note: str) -> SafeString:
    """The note of a result; tasks that it names are links."""
    parts = TASK_NAMED.split(note)
    linked = (cells.link(part, cells.page_url(Task, part)) if at % 2 else part for at, part in enumerate(parts))
    return format_html_join("", "{}", ((part,) for part in linked))


def results_panel(bulk_action: BulkAction, viewer: Any) -> SafeString:
    """The state of a bulk action and the results of its rows, what failed first.

    Rows that the viewer may not view are their keys alone.
    """
    counts = bulk_action.counts()
    done = sum(counts.get(one, 0) for one in LEVELS)
    order = [BulkRow.Outcome.FAILED, BulkRow.Outcome.SKIPPED, BulkRow.Outcome.DONE]
    summary = bulk.summary(bulk_action)
    if bulk_action.state == BulkAction.State.ASKED:
        order, done, summary = [BulkRow.Outcome.WAITING], bulk_action.total, "nothing is done yet"
    rows: list[BulkRow] = []
    for outcome in order:
        if (room := SHOWN_ROWS - len(rows)) > 0 and counts.get(outcome):
            rows += bulk_action.rows.filter(outcome=outcome)[:room]
    action = ACTIONS.get(bulk_action.action)
    action = action if action and may_view(viewer, action.model) else None
    names = _names(action, rows) if action else {}
    shown = {
        "bulk": bulk_action,
        "done": done,
        "summary": summary,
        "state": cells.state(bulk_action.get_state_display(), STATE_TONES[BulkAction.State(bulk_action.state)]),
        "percent": 100 * done // bulk_action.total if bulk_action.total else 100,
        "is_cut": done > len(rows),
        "table": {"headings": ("row", "result", "note"), "rows": [_result_line(row, action, names) for row in rows]},
    }
    return render_to_string("admin/operators/results.html", shown)


def _names(action: RowAction, rows: Sequence[BulkRow]) -> dict[str, str]:
    """Of rows that have better names than their keys."""
    if isinstance(action.model._meta.pk, UUIDField):
        return {}
    return {str(one.pk): str(one) for one in action.rows().filter(pk__in=[row.key for row in rows])}


def _result_line(row: BulkRow, action: RowAction | None, names: Mapping[str, str]) -> tuple[str, tuple[Any, ...]]:
    subject: Any = row.key
    if action is not None:
        url = cells.page_url(action.model, row.key)
        subject = cells.link(names[row.key], url) if row.key in names else cells.row_link(action.model, row.key)
    result = cells.state(row.get_outcome_display().lower(), OUTCOME_TONES[BulkRow.Outcome(row.outcome)])
    return f"bulk-row-{row.pk}", (subject, result, with_links(row.note))


@admin.register(BulkAction)
class BulkActionAdmin(ReadOnlyAdmin):
    """Operators see what they started; who may view bulk actions sees all."""

    menu = MenuItem("Storage", 4, "checklist")
    list_display = (
        column("action", lambda row: cells.link(row.label, cells.page_url(BulkAction, row.pk))),
        related_cell("operator", "by", empty="a deleted account"),
        column("state", lambda row: cells.state(row.get_state_display(), STATE_TONES[row.state]), "state"),
        column("rows", lambda row: f"{row.total:,}", "total"),
        time_cell("created_at", "asked"),
        time_cell("finished_at", "ended"),
    )
    list_filter = ("state",)
    search_fields = ("label", "operator__email")
    ordering = ("-created_at",)
    select_related = ("operator",)
    fields = (*list_display[1:], column("filter", lambda row: _filter_link(row)))
    change_form_outer_before_template = "admin/operators/bulk_action.html"
    operate_permission = "operators.change_bulkaction"
    every_one: ClassVar[str] = "operators.view_bulkaction"

    def has_module_permission(self, request: HttpRequest) -> bool:
        return cast("User", request.user).is_operator

    def has_view_permission(self, request: HttpRequest, obj: BulkAction | None = None) -> bool:
        if obj is None or obj.operator_id == request.user.pk:
            return cast("User", request.user).is_operator
        return request.user.has_perm(self.every_one)

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = super().get_queryset(request)
        return rows if request.user.has_perm(self.every_one) else rows.filter(operator=request.user.pk)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("<uuid:pk>/progress/", view(self.progress), name="operators_bulkaction_progress"),
            path("<uuid:pk>/start/", view(require_POST(self.start)), name="operators_bulkaction_start"),
            path("<uuid:pk>/give-up/", view(require_POST(self.give_up)), name="operators_bulkaction_give_up"),
            path("<uuid:pk>/stop/", view(require_POST(self.stop)), name="operators_bulkaction_stop"),
            *super().get_urls(),
        ]

    def page_context(self, request: HttpRequest, row: BulkAction) -> dict[str, Any]:
        may_start = row.state == BulkAction.State.ASKED and row.operator_id == request.user.pk
        question = {"effect": action.effect, "rows": named(row, action)} if (action := ACTIONS.get(row.action)) else {}
        return {
            "results": results_panel(row, request.user),
            "question": question if may_start else {},
            "by_job": row.total > AT_ONCE,
            "may_stop": row.is_running and self._may_stop(request, row),
        }

    def progress(self, request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
        """The panel alone, which the page fetches while the action goes on."""
        row = self.get_or_404(request, pk)
        return HttpResponse(results_panel(row, request.user))

    def start(self, request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
        """What the operator was asked. Leads to the list with the results, or to the page of a job."""
        row = self._own_or_404(request, pk)
        if not bulk.start(row):
            messages.warning(request, "It was started before.")
        if row.action not in ACTIONS or row.is_running or row.state == BulkAction.State.STOPPED:
            return redirect(cells.page_url(BulkAction, pk))
        is_clean = set(row.counts()) <= {BulkRow.Outcome.DONE}
        level = messages.SUCCESS if is_clean else messages.WARNING
        messages.add_message(request, level, f"{row.label}: {bulk.summary(row)}.")
        request.session[FLASH] = str(pk)
        return redirect(list_of(row))

    def give_up(self, request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
        row = self._own_or_404(request, pk)
        if not bulk.give_up(row):
            messages.warning(request, "It was started before.")
            return redirect(cells.page_url(BulkAction, pk))
        messages.info(request, "Nothing was done.")
        return redirect(list_of(row))

    def _own_or_404(self, request: HttpRequest, pk: uuid.UUID) -> BulkAction:
        row: BulkAction = self.get_or_404(request, pk)
        if row.operator_id != request.user.pk:
            raise PermissionDenied
        return row

    def stop(self, request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
        row = self.get_or_404(request, pk)
        if not self._may_stop(request, row):
            raise PermissionDenied
        if bulk.stop(row, f"{request.user} stopped it."):
            self.log_change(request, row, "Stopped.")
            messages.success(request, "It stops. What was done stays done.")
        else:
            messages.warning(request, "It had ended.")
        return redirect(cells.page_url(BulkAction, pk))

    def _may_stop(self, request: HttpRequest, row: BulkAction) -> bool:
        return row.operator_id == request.user.pk or self.has_operate_permission(request)


def named(row: BulkAction, action: RowAction) -> str:
    """Such as "1 task" or "12 tasks"."""
    options = action.model._meta
    return f"{row.total:,} {options.verbose_name if row.total == 1 else options.verbose_name_plural}"


def list_of(row: BulkAction) -> str:
    """The list where its rows were chosen."""
    if row.action not in ACTIONS:
        return cells.list_url(BulkAction)
    return cells.list_url(ACTIONS[row.action].model) + (f"?{row.chosen}" if row.chosen else "")


def _filter_link(row: BulkAction) -> Any:
    if row.action not in ACTIONS:
        return row.chosen or cells.NOTHING
    filters = {name: value for name, value in QueryDict(row.chosen).items() if name not in ("p", "e")}
    words = ", ".join(f"{name} = {value}" for name, value in filters.items()) or "none"
    return cells.link(words, cells.list_url(ACTIONS[row.action].model, **filters))
