"""The admin page of the audit: read, filtered, searched and exported, never changed."""

from __future__ import annotations

import datetime
from contextlib import suppress
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import RangeDateTimeFilter, TextFilter

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import ApiKey, User
from apps.operators.lists import ListAdmin, saved_query
from apps.record.models import Context
from parley.faces import cells
from parley.faces.admin import MenuItem, column, json_cell, time_cell

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
class AuditEntryAdmin(ListAdmin):
    menu = MenuItem("People and access", 6, "policy", "Audit")
    act = column("what", lambda entry: entry.get_action_display(), "action")
    code = column("action", lambda entry: format_html("<code>{}</code>", entry.action))
    actor = column("who", actor_cell)
    object = column("to what", object_cell)
    number = column("number", lambda entry: cells.link(entry.number, cells.page_url(AuditEntry, entry.number)))
    list_display = (number, time_cell("at", "time"), actor, act, object, "address")
    list_filter = (("at", TimeFilter), ActorFilter, ObjectFilter, AddressFilter, GroupFilter, "actor_kind")
    list_filter_submit = True
    export_permission = "accounts.export_auditentry"
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

    def export_columns(self) -> list[str]:
        """All, as the hash is of all."""
        return [field.attname for field in self.opts.concrete_fields]

    def note_export(self, request: HttpRequest, kind: str, rows: Any) -> Any:
        """An export has no entry of its own."""
        asked = {"format": kind, "filters": saved_query(request.GET)}
        entry = audit.record(AuditAction.AUDIT_EXPORTED, details=asked, request=request)
        return rows.filter(number__lt=entry.number)
