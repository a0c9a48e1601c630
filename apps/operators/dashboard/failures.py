"""Failed runs by reason and agent. Operators mute a group or assign it; what is muted is hidden, but counted."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.http import urlencode

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.analytics.reading import Reading
from apps.operators.actions import may_view
from apps.operators.dashboard.ranges import TimeRange
from apps.operators.dashboard.tables import Table
from apps.operators.models import FailureGroup
from apps.record.execution import Run
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, column
from parley.faces.cells import Tone

PLACE = "#part-reasons"  # on the dashboard
FIRST_ROWS, MOST_ROWS = 12, 200  # of the dashboard at first, and of a choice


@dataclass(frozen=True, slots=True)
class Failed:
    """A group in a range. `agent` is 0 for viewers who may not see agents; `group` is what operators noted of it."""

    reason: str
    agent: int
    number: int
    first: datetime.datetime
    last: datetime.datetime
    group: FailureGroup | None

    @property
    def is_muted(self) -> bool:
        return self.group is not None and self.group.is_muted_at(timezone.now())


class Failures:
    """The groups of a range, the largest first, as the viewer may see them."""

    CHOICES = ("open", "mine", "muted", "all")

    def __init__(self, reading: Reading, shown: TimeRange, viewer: User, choice: str = "") -> None:
        self.shown, self.viewer = shown, viewer
        self.choice = choice if choice in self.CHOICES else ""
        self.has_agents = may_view(viewer, Agent)
        self.has_groups = self.has_agents and may_view(viewer, FailureGroup)
        self.all = sorted(self._groups(reading), key=lambda one: (-one.number, one.reason, one.agent))

    def _groups(self, reading: Reading) -> Iterable[Failed]:
        by = ("agent", "label") if self.has_agents else ("label",)
        seen = reading.seen("run.error", by=by)
        noted = FailureGroup.objects.select_related("assignee") if self.has_groups else ()
        groups = {(one.agent_id, one.reason): one for one in noted}
        whole = (reading.period.start, reading.period.end)
        for key, amount in reading.sums("run.error", by=by).items():
            if amount.number:
                yield Failed(
                    key.label, key.agent, amount.number, *seen.get(key, whole), groups.get((key.agent, key.label))
                )

    def chosen(self) -> Mapping[str, list[Failed]]:
        """By choice."""
        return {
            "open": [one for one in self.all if not one.is_muted],
            "mine": [one for one in self.all if one.group and one.group.assignee_id == self.viewer.pk],
            "muted": [one for one in self.all if one.is_muted],
            "all": self.all,
        }

    def table(self, names: Mapping[int, Any]) -> Table:
        """`names`: cells of agents, by key."""
        found = self.chosen()
        shown = found[self.choice or "open"][: MOST_ROWS if self.choice else FIRST_ROWS]
        headings = ["reason", "agent", "failed runs", "first seen", "last seen", "assigned to", "change"]
        headings = headings if self.has_groups else [one for one in headings[:-2] if one != "agent" or self.has_agents]
        empty = "No run failed in this range." if not self.all else "No failures are here."
        rows = [self._row(one, names) for one in shown]
        title = "Failed runs by reason" + (" and agent" if self.has_agents else "")
        return Table("reasons", title, headings, rows, empty, self._note(found), numeric=False)

    def _row(self, one: Failed, names: Mapping[int, Any]) -> tuple[Any, ...]:
        filters: dict[str, Any] = {"reason": one.reason, **({"by_agent": one.agent} if self.has_agents else {})}
        url = cells.list_url(Run, **self.shown.within("finished_at"), state__exact="failed", **filters)
        agent = [names.get(one.agent, "(deleted)")] if self.has_agents else []
        seen = map(cells.relative_time, (one.first, one.last))
        row = (one.reason, *agent, cells.link(f"{one.number:,}", url), *seen)
        if not self.has_groups:
            return row
        assignee = one.group.assignee if one.group else None
        return (*row, assignee or cells.NOTHING, self._change(one, names))

    def _change(self, one: Failed, names: Mapping[int, Any]) -> Any:
        """A link to the form that mutes and assigns."""
        if one.group is not None:
            words = "Muted: change" if one.is_muted else "Mute or assign"
            words = words if self.viewer.has_perm("operators.change_failuregroup") else "Open"
            return cells.link(words, cells.page_url(FailureGroup, one.group.pk))
        if one.agent not in names or not self.viewer.has_perm("operators.add_failuregroup"):
            return cells.NOTHING
        given = urlencode([("reason", one.reason), ("agent", one.agent)])
        return cells.link("Mute or assign", f"{reverse('admin:operators_failuregroup_add')}?{given}")

    def _note(self, found: Mapping[str, list[Failed]]) -> Any:
        """The choices with their numbers, as links; at first not all rows of "open" are shown."""
        if not self.has_groups:
            found = {"all": self.all}
        now = self.choice or "open"
        texts = {choice: f"{len(rows):,} {choice}" for choice, rows in found.items() if rows or choice == now}
        links = {choice: f"?{self.shown.query}&failures={choice}{PLACE}" for choice in texts}
        shown = (
            (text if choice == self.choice else cells.link(text, links[choice]),) for choice, text in texts.items()
        )
        return format_html_join(" · ", "{}", shown) if self.all else ""


@admin.register(FailureGroup)
class FailureGroupAdmin(ConsoleAdmin):
    """Its form is reached from the dashboard, and leads back there."""

    menu = MenuItem("Record", 8, "rule", "Muted and assigned failures")
    muted = column("muted", lambda row: _muted(row))
    list_display = ("reason", "agent", muted, "assignee")
    list_filter = ("is_muted", ("assignee", admin.RelatedOnlyFieldListFilter))
    search_fields = ("reason", "agent__name", "agent__slug")
    ordering = ("reason", "agent__name")
    select_related = ("agent", "assignee")
    autocomplete_fields = ("agent",)
    fields = ("reason", "agent", "is_muted", "muted_until", "assignee")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Without a mute that has ended, which its form would refuse."""
        row = super().get_object(request, object_id, from_field)
        if row is not None and not row.is_muted_at(timezone.now()):
            row.is_muted, row.muted_until = False, None
        return row

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        return ("reason", "agent") if obj else ()

    def response_post_save_add(self, request: HttpRequest, obj: FailureGroup) -> HttpResponse:
        return redirect(reverse("admin:index") + PLACE)

    response_post_save_change = response_post_save_add


def _muted(row: FailureGroup) -> Any:
    if not row.is_muted_at(timezone.now()):
        return cells.NOTHING
    until = f"until {row.muted_until:%Y-%m-%d %H:%M} UTC" if row.muted_until else "for ever"
    return cells.state(until, Tone.STOPPED)
