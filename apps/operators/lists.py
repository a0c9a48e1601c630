"""Lists of long tables: pages by place, saved filters, and exports."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST
from unfold.views import ChangeList

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.operators.actions import ActingAdmin
from apps.operators.models import SavedFilter
from parley import db
from parley.faces import cells
from parley.faces.admin import ReadOnlyAdmin
from parley.faces.keyset import PLACE, EstimatingPaginator, KeysetChangeList, has_places, order_of, place_of, rows_after

ROWS_AT_ONCE = 1_000  # of an export
MOST_FILTERS = 50  # saved by one operator for one list
NOT_SAVED = {"p", "e", PLACE}  # places in a list
FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")

Row = Mapping[str, Any]


class ListAdmin(ActingAdmin, ReadOnlyAdmin):
    """A read-only list of a long table.

    Attributes:
        export_fields: lookups of further columns of an export, such as "agent__slug".
        export_permission: who may export, of those who may view.
        unindexed: parameters of filters without an index, which look only at the NEWEST rows.
    """

    paginator = EstimatingPaginator
    list_before_template = "admin/operators/list_tools.html"
    export_fields: ClassVar[tuple[str, ...]] = ()
    export_permission = "operators.export_rows"
    unindexed: ClassVar[tuple[str, ...]] = ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return KeysetChangeList

    def _is_bounded(self, request: HttpRequest) -> bool:
        return any(request.GET.get(name) for name in self.unindexed) or super()._is_bounded(request)

    def get_sortable_by(self, request: HttpRequest) -> list[Any]:
        """Columns by which pages can follow each other."""
        chosen = super().get_sortable_by(request)
        return [one for one in chosen if has_places(self.model, self._ordering_of(one))]

    def _ordering_of(self, column: Any) -> str:
        shown = getattr(self, column, column) if isinstance(column, str) else column
        return str(getattr(shown, "admin_order_field", None) or shown).removeprefix("-")

    def get_urls(self) -> list[Any]:
        view, name = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("export/<str:kind>/", view(self.export), name=f"{name}_export"),
            path("filters/save/", view(require_POST(self.save_filter)), name=f"{name}_save_filter"),
            path("filters/<int:pk>/delete/", view(require_POST(self.delete_filter)), name=f"{name}_delete_filter"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}"
        saved = [
            (one, f"?{one.query}", reverse(f"{name}_delete_filter", args=[one.pk]))
            for one in SavedFilter.objects.filter(operator=request.user.pk, model=self.opts.label_lower)
        ]
        query = saved_query(request.GET)
        more: dict[str, Any] = {"saved": saved, "query": query, "save_filter": reverse(f"{name}_save_filter")}
        if request.user.has_perm(self.export_permission):
            exports = ((kind, reverse(f"{name}_export", args=[kind])) for kind in FORMATS)
            more["exports"] = [(FORMATS[kind][0], f"{url}?{query}") for kind, url in exports]
        return super().changelist_view(request, {**more, **(extra_context or {})})

    def save_filter(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        query = saved_query(QueryDict(request.POST.get("query", "")))
        word = " ".join(request.POST.get("name", "").split())
        mine = SavedFilter.objects.filter(operator=request.user.pk, model=self.opts.label_lower)
        if not word or len(word) > 60 or not query or len(query) > 1000:
            messages.error(request, "Choose a filter, and write a name of at most 60 characters.")
        elif mine.exclude(name=word).count() >= MOST_FILTERS:
            messages.error(request, f"You have {MOST_FILTERS} filters of this list. Delete one first.")
        else:
            SavedFilter.objects.update_or_create(
                operator_id=request.user.pk, model=self.opts.label_lower, name=word, defaults={"query": query}
            )
            messages.success(request, f"The filter {word} was saved.")
        return redirect(f"{cells.list_url(self.model)}?{query}")

    def delete_filter(self, request: HttpRequest, pk: int) -> HttpResponse:
        mine = SavedFilter.objects.filter(operator=request.user.pk, model=self.opts.label_lower, pk=pk)
        if not mine.delete()[0]:
            raise Http404
        return redirect(cells.list_url(self.model))

    def export(self, request: HttpRequest, kind: str) -> HttpResponse | StreamingHttpResponse:
        """The filtered rows as a stream."""
        if not (self.has_view_permission(request) and request.user.has_perm(self.export_permission)):
            raise PermissionDenied
        if kind not in FORMATS:
            raise Http404
        _, media_type, begin, line = FORMATS[kind]
        rows = self.get_changelist_instance(request).get_queryset(request)
        columns = self.export_columns()
        rows = self.note_export(request, kind, rows)
        name = f"{self.opts.model_name}-{timezone.now():%Y-%m-%d}.{kind}"
        response = StreamingHttpResponse(_lines(rows, columns, begin, line), content_type=media_type)
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["Cache-Control"] = "private, no-store"
        return response

    def note_export(self, request: HttpRequest, kind: str, rows: QuerySet[Any]) -> QuerySet[Any]:
        """In the audit and in admin's log, of the list instead of a row. Returns the rows to export."""
        plural = str(self.opts.verbose_name_plural)[:200]
        what = f"Exported as {kind}: {saved_query(request.GET) or 'all'}"
        with transaction.atomic():
            subject = audit.Subject(self.opts.label_lower, label=plural)
            audit.record(AuditAction.ADMIN_CHANGED, object=subject, details={"note": what}, request=request)
            LogEntry.objects.create(
                user_id=int(request.user.pk or 0), object_repr=plural, action_flag=CHANGE, change_message=what[:1000],
                content_type=ContentType.objects.get_for_model(self.model, for_concrete_model=False),
            )  # fmt: skip
        return rows

    def export_columns(self) -> list[str]:
        """All columns but JSON and secrets, then `export_fields`."""
        left_out = (models.JSONField, EncryptedTextField)
        fields = [one.attname for one in self.opts.concrete_fields if not isinstance(one, left_out)]
        return [name for name in fields if name not in self.deferred] + list(self.export_fields)


def saved_query(given: QueryDict) -> str:
    """A list's filters and order as a query string, without its place."""
    kept = given.copy()
    for name in NOT_SAVED & set(kept):
        del kept[name]
    return kept.urlencode()


async def _lines(
    rows: QuerySet[Any], columns: Sequence[str], begin: Callable[[Sequence[str]], str], line: Callable[[Row], str]
) -> AsyncIterator[bytes]:
    """Read ROWS_AT_ONCE rows at a time, so that an export of any length needs little memory."""
    yield begin(columns).encode()
    place = ""
    while True:
        some, place = await db.run(_page, rows, columns, place)
        yield "".join(map(line, some)).encode()
        if not place:
            return


def _page(rows: QuerySet[Any], columns: Sequence[str], place: str) -> tuple[list[Row], str]:
    """The rows after a place, and the place of their last one; "" at the end."""
    narrow = rows_after(rows, place).select_related(None).only("pk", order_of(rows)[0])
    found = list(narrow[:ROWS_AT_ONCE])
    keys = [row.pk for row in found]
    read = {row["pk"]: row for row in rows.model._default_manager.filter(pk__in=keys).values("pk", *columns)}
    shown: list[Row] = [{name: read[key][name] for name in columns} for key in keys if key in read]
    return shown, place_of(rows, found[-1]) if len(found) == ROWS_AT_ONCE else ""


def _csv(values: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow([_harmless(value) for value in values])
    return text.getvalue()


def _harmless(value: Any) -> Any:
    """A spreadsheet would run a cell that starts like a formula: an apostrophe makes it text (OWASP, CSV injection)."""
    return f"'{value}" if isinstance(value, str) and value.lstrip().startswith(FORMULA_STARTS) else value


class ExactEncoder(DjangoJSONEncoder):
    """Times have microseconds, as in CSV."""

    def default(self, o: Any) -> Any:
        return o.isoformat(timespec="microseconds") if isinstance(o, datetime.datetime) else super().default(o)


def _csv_line(row: Row) -> str:
    return _csv([_cell(value) for value in row.values()])


def _cell(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, sort_keys=True) if value else ""
    return value


def _json_line(row: Row) -> str:
    return json.dumps(row, cls=ExactEncoder, ensure_ascii=False) + "\n"


FORMATS: dict[str, tuple[str, str, Callable[[Sequence[str]], str], Callable[[Row], str]]] = {
    "csv": ("CSV", "text/csv; charset=utf-8", _csv, _csv_line),
    "jsonl": ("JSON Lines", "application/jsonl", lambda _: "", _json_line),
}
