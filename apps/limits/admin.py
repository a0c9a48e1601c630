"""Admin pages of limits, and their part of the pages of workspaces, API keys and agents."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import display
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from apps.engine.uses import uses_of
from apps.limits.current import Holder
from apps.limits.models import Kind, Limit, Whose
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, column
from parley.faces.cells import Tone

EXPLANATION = "Empty: not limited. All limits that apply to a caller count: of the workspace, the key and the agent."


def holder_of(limit: Limit) -> Holder:
    key = str(limit.api_key) if limit.whose is Whose.KEY else getattr(limit, f"{limit.whose.value}_id")
    return Holder(limit.whose, key)


@display(description="in use")
def in_use(limit: Limit) -> SafeString | str:
    """Each limit with what is used of it."""
    if limit.pk is None:
        return ""
    lines = []
    for use in uses_of(holder_of(limit)):
        tone = Tone.FAILED if use.is_reached else Tone.WAITING if use.is_near else Tone.DONE
        lines.append(cells.state(f"{use.title}: {use.words}", tone))
    return cells.lines(lines) if lines else "Nothing is limited."


def limits_cell(whose: Whose) -> Any:
    """The limits on the page of what they are of, with a link to set them."""

    @display(description="limits")
    def shown(row: Model) -> SafeString | str:
        if row.pk is None:
            return ""
        found = Limit.objects.filter(**{whose.value: row.pk}).select_related("api_key").first()
        if found is None:
            return cells.link("Set limits", f"{reverse('admin:limits_limit_add')}?{whose.value}={row.pk}")
        return cells.lines([in_use(found), cells.link("Change limits", _page(found))])

    return shown


@admin.register(Limit)
class LimitAdmin(ConsoleAdmin):
    menu = MenuItem("Cost", 1, "speed")
    name = column("limits of", lambda row: cells.link(row.holder, _page(row)))
    whose = column("kind", lambda row: row.whose.label)
    list_display = (name, whose, in_use, "priority")
    list_display_links = None
    select_related = tuple(Whose.values)
    autocomplete_fields = tuple(Whose.values)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Only workspaces have files."""
        whose = [obj.whose] if obj else list(Whose)
        kinds = [kind for kind in Kind if kind is not Kind.STORAGE or Whose.WORKSPACE in whose]
        fields = [*whose, *kinds, "priority", *((in_use,) if obj else ())]
        return [(None, {"fields": fields, "description": EXPLANATION})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Whose it is does not change."""
        return (*Whose.values, in_use) if obj else ()


def _page(limit: Limit) -> str:
    return cells.page_url(Limit, limit.pk)
