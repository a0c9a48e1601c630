"""Base classes and columns of admin pages."""

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from django.contrib.admin import ChoicesFieldListFilter, display
from django.contrib.admin.views.main import ERROR_FLAG
from django.core.exceptions import FieldDoesNotExist
from django.core.paginator import Paginator
from django.db import DataError, ProgrammingError, transaction
from django.db.models import DateTimeField, ForeignKey, JSONField, Model, Q, QuerySet, UUIDField
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import cached_property
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import action

from parley.faces import cells
from parley.faces.cells import Tone
from parley.registry import added

log = logging.getLogger("parley.operators")


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts at most MOST rows, to be fast."""

    MOST = 10_000

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return rows.order_by().values("pk")[: self.MOST].count() if isinstance(rows, QuerySet) else len(rows)


class IndexedStates(ChoicesFieldListFilter):
    """A filter of states with partial indexes of several states each."""

    groups: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @classmethod
    def of(cls, *groups: tuple[str, ...]) -> type["IndexedStates"]:
        """`groups`: the states in the condition of each index."""
        return type(cls.__name__, (cls,), {"groups": groups})

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """With the condition of the index: SQLite needs it."""
        rows: Any = super().queryset(request, queryset)
        chosen = self.lookup_val[-1] if self.lookup_val else None
        for group in self.groups:
            if chosen in group:
                rows = rows.filter(**{f"{self.field_path}__any_of": group})
        return rows


UNSEARCHABLE = (ValueError, OverflowError, IndexError, DataError, ProgrammingError)
"""What a year after 9999, a number of more than 64 bits, U+0000 or half a range raises in a query."""


class MenuItem(NamedTuple):
    """A line of admin's sidebar. `title` is by default the model's name in the plural."""

    section: str
    place: int  # in its section
    icon: str
    title: str = ""


class LoggedAdmin(ModelAdmin):
    """Tells `admin_recorder` what admin's own history notes. Every class of admin pages is one.

    Django changes a row and notes it in one transaction. Actions do so too, if they can. Deletions are described before
    and recorded after, because only one transaction at a time can record.

    Attributes:
        menu: where the sidebar leads to the list.
    """

    menu: ClassVar[MenuItem | None] = None

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Leads back to the whole list, as Django does for most of them, if no database can look for a value."""
        try:
            return super().changelist_view(request, *args, **kwargs)
        except UNSEARCHABLE:
            if request.method != "GET" or set(request.GET) <= {ERROR_FLAG}:
                raise
            log.warning("a list could not be searched", exc_info=True)
            return HttpResponseRedirect(f"{request.path}?{ERROR_FLAG}=1")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        try:
            return super().get_object(request, object_id, from_field)
        except UNSEARCHABLE:
            log.warning("a row could not be looked for", exc_info=True)
            return None

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        self._record(request, obj, "created", message)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any, action: str | None = None) -> Any:
        """`action`: the audit's code, if it has a more exact one; "" if the act was recorded already."""
        if action != "":
            self._record(request, obj, "changed", message, action)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        entries = [self._entry(request, row, "deleted", "") for row in queryset]
        if (later := _deletions.get()) is not None:
            later += entries
        else:
            for record in entries:
                record()
        return super().log_deletions(request, queryset)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with _recorded_deletions() if request.method == "POST" else nullcontext():
            return super().delete_view(request, *args, **kwargs)

    def response_action(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with _recorded_deletions() if "delete_selected" in request.POST.getlist("action") else nullcontext():
            return super().response_action(request, *args, **kwargs)

    def _record(self, request: HttpRequest, row: Model, verb: str, message: Any, action: str | None = None) -> None:
        self._entry(request, row, verb, message, action)()

    def _entry(
        self, request: HttpRequest, row: Model, verb: str, message: Any, action: str | None = None
    ) -> Callable[[], object]:
        entry: Callable[[], object] = added["admin_recorder"](request, row, verb, message, action)
        return entry


_deletions: ContextVar[list[Callable[[], object]] | None] = ContextVar("deletions", default=None)


@contextmanager
def _recorded_deletions() -> Iterator[None]:
    """A transaction of deletions, which are recorded at its end."""
    entries: list[Callable[[], object]] = []
    token = _deletions.set(entries)
    try:
        with transaction.atomic():
            yield
            for record in entries:
                record()
    finally:
        _deletions.reset(token)


class ConsoleAdmin(LoggedAdmin):
    """Attributes:
    select_related: relations to load.
    deferred: columns not to load.
    operate_permission: required by actions with the permission "operate".
    """

    select_related: ClassVar[tuple[str, ...]] = ()
    deferred: ClassVar[tuple[str, ...]] = ()
    operate_permission = ""

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = super().get_queryset(request)
        if self.select_related:
            rows = rows.select_related(*self.select_related)
        return rows.defer(*self.deferred)

    def has_operate_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        return request.user.has_perm(self.operate_permission)

    def get_or_404(self, request: HttpRequest, object_id: object) -> Any:
        if (row := self.get_object(request, str(object_id))) is None:
            raise Http404
        return row

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """More template variables."""
        return {}

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        if obj is not None:
            context |= self.page_context(request, obj)
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def is_offered(self, action: str, row: Any) -> bool:
        """Whether the row's page offers the action (`url_path`)."""
        return True

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        row = self.get_object(request, object_id)  # None: unknown or malformed
        actions = super().get_actions_detail(request, object_id)
        return [one for one in actions if row is None or self.is_offered(one.path, row)]


PLACES = frozenset({"p", "o", "e", "before"})
"""Parameters of a list that filter nothing."""


class ReadOnlyAdmin(ConsoleAdmin):
    """Rows that nobody adds, changes or deletes.

    Attributes:
        id_lookups: lookups of UUID columns to search.
        link_filters: URL lookups of other pages' links: label, and the row's model.
        filters_newest: whether filters, as words do, look only at the NEWEST rows by the list's order.
        tones: of the values of the field `state`.
    """

    NEWEST = 50_000
    filters_newest = False

    list_per_page = 100
    list_max_show_all = 0
    list_display_links: Any = None
    show_full_result_count = False
    show_facets = False
    paginator = BoundedPaginator
    actions: Any = None
    id_lookups: ClassVar[tuple[str, ...]] = ("pk",)
    link_filters: ClassVar[dict[str, tuple[str, type[Model]]]] = {}
    list_before_template = "admin/console/narrowed.html"
    tones: ClassVar[Mapping[Any, Tone]] = {}

    def __init__(self, model: type[Model], admin_site: Any) -> None:
        """Fields that are named alone are shown by their type. The first of the list leads to the row's page."""
        super().__init__(model, admin_site)
        first, *others = self.list_display
        self.list_display: Any = (self._cell(first, is_link=True), *map(self._cell, others))
        is_form = type(self).has_change_permission is not ReadOnlyAdmin.has_change_permission
        if self.fields and not is_form:
            self.fields: Any = tuple(map(self._cell, self.fields))

    def _cell(self, name: Any, *, is_link: bool = False) -> Any:
        if not isinstance(name, str) or hasattr(self, name):
            return name
        try:
            return cell_of(self.model._meta.get_field(name), self.tones, is_link=is_link)
        except FieldDoesNotExist:
            return name

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        return lookup in self.link_filters or super().lookup_allowed(lookup, value, request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """By id if the term is a UUID, else by words among the newest rows."""
        try:
            key = uuid.UUID(search_term.strip())
        except ValueError:
            rows = self._newest(request, queryset) if self._is_bounded(request) else queryset
            return super().get_search_results(request, rows, search_term)
        named = Q()
        for lookup in self.id_lookups:
            named |= Q(**{lookup: key})
        return queryset.filter(named), False

    def _is_bounded(self, request: HttpRequest) -> bool:
        """Links from other pages show all rows: they have indexes."""
        if any(lookup in request.GET for lookup in self.link_filters):
            return False
        return bool(request.GET.get("q")) or (self.filters_newest and bool(set(request.GET) - PLACES))

    def _newest(self, request: HttpRequest, queryset: Any) -> Any:
        """Of a long table, with a note for the page."""
        field = self.ordering[0].removeprefix("-")
        values = self.model._default_manager.order_by(f"-{field}").values_list(field, flat=True)
        oldest = values[self.NEWEST : self.NEWEST + 1].first()
        if oldest is None:
            return queryset
        request.newest = self.NEWEST  # type: ignore[attr-defined]
        return queryset.filter(**{f"{field}__gt": oldest})

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        narrowed = [
            (label, _narrowing_link(model, request.GET[lookup]))
            for lookup, (label, model) in self.link_filters.items()
            if lookup in request.GET
        ]
        return super().changelist_view(request, {"narrowed": narrowed, **(extra_context or {})})


LONGEST_KEY = 19  # digits of 64 bits


def _narrowing_link(model: type[Model], key: str) -> SafeString:
    if not key:
        return cells.NOTHING
    if isinstance(model._meta.pk, UUIDField):
        return cells.row_link(model, key)
    row = model._default_manager.filter(pk=key).first() if key.isdecimal() and len(key) < LONGEST_KEY else None
    return cells.link(row or key, cells.page_url(model, key))


def redirect_dialog(model: type[Model], key: object) -> HttpResponse:
    """For a dialog: htmx loads the row's page; without a key, the list."""
    return HttpResponse(headers={"HX-Redirect": cells.list_url(model) if key is None else cells.page_url(model, key)})


def page_button(label: str, icon: str, url_path: str, address: Callable[[Any], str]) -> Any:
    """A button of a row's page that leads to another page. `address`: of that page, by the row."""

    def go(self: ConsoleAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(address(self.get_or_404(request, object_id)))

    go.__name__ = url_path.replace("-", "_")
    return action(description=label, permissions=["view"], icon=icon, url_path=url_path)(go)


Column = Callable[[Any], Any]


def column(title: str, show: Callable[[Any], object], ordering: str = "", *, field: str = "") -> Column:
    """A list's column or a page's line. The help text is that of the model's `field`."""

    @display(description=title, ordering=ordering or None)
    def shown(row: Any) -> object:
        return show(row)

    shown.__name__ = field or "column"
    return shown


def json_cell(field: str) -> Column:
    return column(field.replace("_", " "), lambda row: cells.json_block(getattr(row, field)), field=field)


def time_cell(field: str, title: str = "") -> Column:
    title = title or field.removesuffix("_at").replace("_", " ")
    return column(title, lambda row: cells.relative_time(getattr(row, field)), field, field=field)


def id_cell(path: str, title: str = "id", *, ordering: str = "", is_link: bool = False, field: str = "") -> Column:
    """A shortened id, with `is_link` as a link to the row's page."""
    get = attrgetter(path)

    def show(row: Any) -> SafeString:
        return cells.identifier(get(row), cells.page_url(type(row), row.pk) if is_link else "")

    return column(title, show, ordering, field=field)


def page_link(field: str, title: str = "", *, ordering: str | None = None) -> Column:
    """A field's value, as a link to the row's page."""
    show = lambda row: cells.link(getattr(row, field) or "–", cells.page_url(type(row), row.pk))  # noqa: E731
    return column(title or field, show, field if ordering is None else ordering)


def related_cell(
    path: str, title: str = "", *, text: str = "", ordering: str = "", empty: object = cells.NOTHING, field: str = ""
) -> Column:
    """A link to a related row; `text` is the attribute to show, by default the name."""
    get = attrgetter(path)

    def show(row: Any) -> object:
        if (related := get(row)) is None:
            return empty
        return cells.link(getattr(related, text) if text else related, cells.page_url(type(related), related.pk))

    return column(title or path.rpartition(".")[2].replace("_", " "), show, ordering, field=field)


def key_cell(model: type[Model], path: str, title: str, *, field: str = "") -> Column:
    """A link to a related row by key; the row need not be loaded."""
    get = attrgetter(path)
    return column(title, lambda row: cells.row_link(model, get(row)), field=field)


def count_cell(
    title: str, model: type[Model], lookup: str, count: Callable[[Any], int], *, ordering: str = ""
) -> Column:
    """A count, as a link to the rows."""
    return column(title, lambda row: cells.count_link(count(row), model, **{lookup: row.pk}), ordering)


def cell_of(field: Any, tones: Mapping[Any, Tone], *, is_link: bool = False) -> Any:
    """The cell of a model's field, by its type; the field's name where Django's own cell is right."""
    title = str(field.verbose_name).removesuffix(" at")
    if is_link:
        return page_link(field.name, title)
    if field.name == "state" and tones:
        return column(title, lambda row: cells.state(row.get_state_display().lower(), tones[row.state]), field.name)
    if isinstance(field, DateTimeField):
        return time_cell(field.name, title)
    if isinstance(field, ForeignKey):
        return related_cell(field.name, title, ordering=field.name, field=field.name)
    return json_cell(field.name) if isinstance(field, JSONField) else field.name


def state_cell(field: str, tones: Mapping[Any, Tone], title: str = "state") -> Column:
    return column(title, lambda row: cells.state(getattr(row, field), tones[getattr(row, field)]), field)
