"""The admin page of the audit: read, filtered, searched and exported, never changed."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import path
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import content_disposition_header, urlencode
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import RangeDateTimeFilter, TextFilter

import db
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import ApiKey, User
from apps.record.models import Context
from console import cells
from console.admin import ReadOnlyAdmin, column, json_cell, time_cell

ROWS_AT_ONCE = 1_000
FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
FIELDS = [field.attname for field in AuditEntry._meta.concrete_fields]
FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
PAGES = {model._meta.label_lower: model for model in (User, ApiKey, Context)}


class GroupFilter(admin.SimpleListFilter):
    title, parameter_name = "kind of action", "group"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        groups = dict.fromkeys(action.group for action in AuditAction)
        return [(group, group.replace("_", " ").capitalize().replace("Api", "API")) for group in groups]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(group=self.value()) if self.value() else queryset


class ActorFilter(TextFilter):
    title, parameter_name = "actor (e-mail, person's id, command or rule)", "actor"

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = (self.value() or "").strip()
        return queryset.filter(Q(actor_key=value) | Q(actor_name=value)) if value else queryset


class ObjectFilter(TextFilter):
    title, parameter_name = "object (id or name)", "object"

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = (self.value() or "").strip()
        return queryset.filter(Q(object_key=value) | Q(object_label=value)) if value else queryset


class AddressFilter(TextFilter):
    title, parameter_name = "IP address", "address"

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = (self.value() or "").strip()
        return queryset.filter(address=value) if value else queryset


class TimeFilter(RangeDateTimeFilter):
    """Entries are numbered in the order of time, so a range of times is one of numbers, which is fast."""

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        since, until = self._time("from", datetime.time.min), self._time("to", datetime.time.max)
        numbers = AuditEntry.objects.values_list("number", flat=True)
        if since is not None:
            first = numbers.filter(at__gte=since).order_by("at", "number").first()
            queryset = queryset.none() if first is None else queryset.filter(number__gte=first)
        if until is not None:
            last = numbers.filter(at__lte=until).order_by("-at", "-number").first()
            queryset = queryset.none() if last is None else queryset.filter(number__lte=last)
        return queryset

    def _time(self, end: str, default: datetime.time) -> datetime.datetime | None:
        """None if no date is given, or one that is none. Without a time: the whole day."""
        date, time = (str(self.used_parameters.get(f"at_{end}_{part}") or "") for part in (0, 1))
        with suppress(ValueError):
            of_day = datetime.time.fromisoformat(time) if time else default
            return timezone.make_aware(datetime.datetime.combine(datetime.date.fromisoformat(date), of_day))
        return None


def actor_cell(entry: AuditEntry) -> SafeString | str:
    name = entry.actor_name or entry.get_actor_kind_display()
    return cells.link(name, cells.list_url(AuditEntry, actor=entry.actor_key)) if entry.actor_key else name


def object_cell(entry: AuditEntry) -> SafeString | str:
    """The object, with a link to its page where it has one."""
    if not (label := entry.object_label or entry.object_key):
        return cells.NOTHING
    model = PAGES.get(entry.object_type)
    return cells.link(label, cells.page_url(model, entry.object_key)) if model else label


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    act = column("what", lambda entry: entry.get_action_display(), "action")
    code = column("action", lambda entry: format_html("<code>{}</code>", entry.action))
    actor = column("who", actor_cell)
    object = column("to what", object_cell)
    number = column("number", lambda entry: cells.link(entry.number, cells.page_url(AuditEntry, entry.number)))
    list_display = (number, time_cell("at", "time"), actor, act, object, "address")
    list_filter = (("at", TimeFilter), ActorFilter, ObjectFilter, AddressFilter, GroupFilter, "actor_kind")
    list_filter_submit = True
    list_before_template = "admin/accounts/audit_exports.html"
    sortable_by = ()
    search_fields = ("action", "actor_name", "object_label", "object_key", "address", "request_id")
    search_help_text = "Part of a name, action, address or id"
    id_lookups = ("object_key", "request_id")
    ordering = ("-number",)
    fields = (
        "number_", time_cell("at", "time"), act, code, actor, "actor_kind", "actor_key", object, "object_type",
        "object_key", "workspace", "address", "user_agent", "request_id", json_cell("details"), "previous", "hash",
    )  # fmt: skip

    @admin.display(description="number")
    def number_(self, entry: AuditEntry) -> int:
        return entry.number

    def has_export_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and request.user.has_perm("accounts.export_auditentry")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        query = request.GET.copy()
        query.pop("p", None)
        may_export = self.has_export_permission(request)
        context = {"export_formats": FORMATS if may_export else (), "export_query": query.urlencode()}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def get_urls(self) -> list[Any]:
        export = self.admin_site.admin_view(self.export)
        return [path("export/<str:format>/", export, name="accounts_auditentry_export"), *super().get_urls()]

    def export(self, request: HttpRequest, format: str) -> HttpResponseBase:
        """The entries that the filters leave, as a stream of CSV or JSON Lines."""
        if not self.has_export_permission(request):
            raise PermissionDenied
        if format not in FORMATS:
            raise Http404
        found = self.get_changelist_instance(request).get_queryset(request)
        asked = {"format": format, "filters": urlencode(request.GET, doseq=True)}
        entry = audit.record(AuditAction.AUDIT_EXPORTED, details=asked, request=request)
        response = StreamingHttpResponse(_exported(found, format, entry.number), content_type=FORMATS[format])
        name = f"audit-{timezone.now():%Y-%m-%d}.{format}"
        response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=name) or ""
        response["X-Content-Type-Options"] = "nosniff"
        response["Cache-Control"] = "private, no-store"
        return response


async def _exported(found: Any, format: str, before: int) -> AsyncIterator[bytes]:
    """The newest first. No thread and no database connection is held between the pieces."""
    write = _csv if format == "csv" else _json_lines
    if format == "csv":
        yield _csv_line(FIELDS)
    while rows := await db.run(
        list, found.filter(number__lt=before).order_by("-number").values(*FIELDS)[:ROWS_AT_ONCE]
    ):
        yield b"".join(write(rows))
        before = rows[-1]["number"]


def _json_lines(rows: list[dict[str, Any]]) -> Iterator[bytes]:
    for row in rows:
        yield (
            json.dumps({**row, "at": row["at"].isoformat(timespec="microseconds")}, ensure_ascii=False).encode() + b"\n"
        )


def _csv(rows: list[dict[str, Any]]) -> Iterator[bytes]:
    for row in rows:
        details = json.dumps(row["details"], ensure_ascii=False, sort_keys=True) if row["details"] else ""
        values = {**row, "at": row["at"].isoformat(timespec="microseconds"), "details": details}
        yield _csv_line([values[name] for name in FIELDS])


def _csv_line(values: list[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(map(_harmless, values))
    return text.getvalue().encode()


def _harmless(value: Any) -> Any:
    """A spreadsheet would run a cell that starts like a formula: an apostrophe makes it text (OWASP, CSV injection)."""
    return f"'{value}" if isinstance(value, str) and value.lstrip().startswith(FORMULA_STARTS) else value
