"""Lists of long tables, paged by the last row that was shown instead of by numbers, with estimated counts.

A page costs the same wherever it is, because the database starts at a place in an index and skips nothing.
"""

import datetime
import json
from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from unfold.views import ChangeList

from parley.faces.admin import BoundedPaginator

PLACE = "before"  # the parameter of a URL
MARK = "~"  # between a value and a key


class EstimatingPaginator(BoundedPaginator):
    """Counts exactly up to MOST rows. Of more it gives the estimate that PostgreSQL plans by; SQLite has none."""

    MOST = 100_000
    template_name = "admin/console/pages.html"

    @cached_property
    def shown_count(self) -> str:
        """Such as "12", "about 1,000,000" or, on SQLite, "100,000 or more"."""
        if self.count < self.MOST:
            return f"{self.count:,}"
        estimate = _estimated_rows(self.object_list) if connection.vendor == "postgresql" else 0
        return f"about {estimate:,}" if estimate > self.MOST else f"{self.MOST:,} or more"


def _estimated_rows(rows: Any) -> int:
    [plan] = json.loads(rows.order_by().values("pk").explain(format="json"))
    return int(plan["Plan"]["Plan Rows"])


class KeysetChangeList(ChangeList):
    """A list whose next page begins after the row that `before` names."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.place = request.GET.get(PLACE, "")
        self.older = ""
        super().__init__(request, *args, **kwargs)

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[str]:
        """By one column with places, else by key, also for a hand-made URL."""
        first = str(next(iter(super().get_ordering(request, queryset)), "-pk"))
        name = first.removeprefix("-")
        if not has_places(self.model, name) and not request.GET.get(f"{name}__gte"):  # which leaves out NULL
            return ["-pk"]
        return [first] if name == "pk" else [first, "-pk"]

    def get_filters_params(self, params: Any = None) -> Any:
        found = super().get_filters_params(params)
        found.pop(PLACE, None)
        return found

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """Links to other filters and orders begin with their newest row."""
        return str(super().get_query_string({PLACE: None} | (new_params or {}), remove))

    def get_results(self, request: HttpRequest) -> None:
        self.paginator = self.model_admin.get_paginator(request, self.queryset, self.list_per_page)
        self.result_count = self.paginator.count
        found = list(rows_after(self.queryset, self.place)[: self.list_per_page + 1])
        self.result_list = found[: self.list_per_page]
        if len(found) > self.list_per_page:
            self.older = self.get_query_string({PLACE: place_of(self.queryset, self.result_list[-1])})
        self.newest = self.get_query_string() if self.place else ""
        self.show_full_result_count = self.multi_page = self.can_show_all = False
        self.show_admin_actions = True
        self.full_result_count = self.result_count  # the theme shows none then: it stands above the list


def has_places(model: type[Model], name: str) -> bool:
    """Can a page begin after any value of this column? Not if it is another table's, or may be NULL."""
    own = (one for one in model._meta.concrete_fields if not one.is_relation and not one.null)
    return name == "pk" or name in {one.name for one in own}


def rows_after(rows: QuerySet[Any], place: str) -> QuerySet[Any]:
    """The rows after a place, in their order: by one column of the table, then by falling keys.

    Raises IncorrectLookupParameters for a malformed place.
    """
    if not place:
        return rows
    name, is_falling = order_of(rows)
    text, _, key_text = place.rpartition(MARK)
    try:
        key = rows.model._meta.pk.to_python(key_text)
        value = key if name == "pk" else rows.model._meta.get_field(name).to_python(text)
    except (ValidationError, ValueError) as error:
        raise IncorrectLookupParameters(error) from error
    if name == "pk":
        return rows.filter(**{"pk__lt" if is_falling else "pk__gt": key})
    sign = "lte" if is_falling else "gte"
    return rows.filter(**{f"{name}__{sign}": value}).exclude(**{name: value, "pk__gte": key})


def place_of(rows: QuerySet[Any], row: Any) -> str:
    """The place of a row (an instance) in the order of `rows`."""
    name, _ = order_of(rows)
    value = getattr(row, name)
    return f"{value.isoformat() if isinstance(value, datetime.datetime) else value}{MARK}{row.pk}"


def order_of(rows: QuerySet[Any]) -> tuple[str, bool]:
    """The first column of the order, and whether it falls."""
    first = str(rows.query.order_by[0]) if rows.query.order_by else "-pk"
    name = first.removeprefix("-")
    return "pk" if name in ("pk", rows.model._meta.pk.name) else name, first.startswith("-")
