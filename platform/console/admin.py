"""Read-only admin for rows that machines write, and columns of times and JSON."""

import uuid
from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib.admin import display
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet, UUIDField
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from console import cells


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than MOST rows: on a log of millions a filter finds what page 100 does not."""

    MOST = 10_000

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return rows.order_by()[: self.MOST].count() if isinstance(rows, QuerySet) else len(rows)


class ReadOnlyAdmin(ModelAdmin):
    """Nobody adds, changes or deletes, whatever their permissions; who may view finds rows by id or text.

    Attributes:
        id_lookups: lookups of UUID columns that a search for an id tries.
        link_filters: URL lookups by which other pages link here, with the model whose row they name.
    """

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

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """Rows that an id names, by their indexes; otherwise those whose text is like the term."""
        try:
            key = uuid.UUID(search_term.strip())
        except ValueError:
            return super().get_search_results(request, queryset, search_term)
        named = Q()
        for lookup in self.id_lookups:
            named |= Q(**{lookup: key})
        return queryset.filter(named), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        narrowed = [
            (label, _narrowing_link(model, request.GET[lookup]))
            for lookup, (label, model) in self.link_filters.items()
            if lookup in request.GET
        ]
        return super().changelist_view(request, {"narrowed": narrowed, **(extra_context or {})})


def json_cell(field: str) -> Callable[[Model], SafeString]:
    """A JSON column of a page, laid out for reading."""

    @display(description=field.replace("_", " "))
    def column(row: Model) -> SafeString:
        return cells.json_block(getattr(row, field))

    column.__name__ = field
    return column


def time_cell(field: str, title: str = "") -> Callable[[Model], SafeString]:
    """A column of times, relative to now."""

    @display(description=title or field.removesuffix("_at").replace("_", " "), ordering=field)
    def column(row: Model) -> SafeString:
        return cells.relative_time(getattr(row, field))

    column.__name__ = field
    return column


def _narrowing_link(model: type[Model], key: str) -> SafeString:
    """A row that a URL names, as a link to its page: by its id where that means something, otherwise by its name."""
    if isinstance(model._meta.pk, UUIDField):
        return cells.row_link(model, key)
    row = model._default_manager.filter(pk=key).first() if key.isdigit() else None
    return cells.link(row or key, cells.page_url(model, key))
