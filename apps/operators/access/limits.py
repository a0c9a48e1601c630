"""Admin pages of limits, and their part of the pages of workspaces, API keys and agents."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin import display
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from apps.engine.uses import uses_of
from apps.limits.current import Holder
from apps.limits.models import Kind, Limit, Whose
from console import cells
from console.admin import ConsoleAdmin, column
from console.cells import Tone

NUMBERS = ("requests_per_minute", "running_runs", "queued_runs", "open_streams")
EXPLANATION = "Empty: not limited. All limits that apply to a caller count: of the workspace, the key and the agent."


def holder_of(limit: Limit) -> Holder:
    if limit.workspace_id:
        return Holder(Whose.WORKSPACE, limit.workspace_id)
    return Holder(Whose.AGENT, limit.agent_id) if limit.agent_id else Holder(Whose.KEY, str(limit.api_key))


class LimitForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Limit
        fields = ("workspace", "api_key", "agent", *NUMBERS, "storage_bytes", "priority")

    def clean(self) -> dict[str, Any]:
        """Whose it is stays as it is. Raises ValidationError unless it is of one."""
        given: dict[str, Any] = super().clean() or {}
        if self.instance.pk is None and sum(bool(given.get(name)) for name in Whose.values) != 1:
            raise ValidationError("Choose one workspace, one API key or one agent.")
        if given.get("storage_bytes") is not None and not (given.get("workspace") or self.instance.workspace_id):
            raise ValidationError({"storage_bytes": "Files belong to workspaces. Set this for a workspace."})
        return given


@display(description="in use")
def in_use(limit: Limit) -> SafeString | str:
    """Each limit with what is used of it."""
    if limit.pk is None:
        return ""
    lines = []
    for use in uses_of(holder_of(limit)):
        words = f"{use.title}: {use.used:,} of {use.limit:,}"
        tone = Tone.FAILED if use.is_reached else Tone.WAITING if use.is_near else Tone.DONE
        lines.append(cells.state(words, tone))
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
    form = LimitForm
    name = column("limits of", lambda row: cells.link(str(row.workspace or row.api_key or row.agent), _page(row)))
    whose = column("kind", lambda row: holder_of(row).whose.label)
    list_display = (name, whose, in_use, "priority")
    list_display_links = None
    select_related = ("workspace", "api_key", "agent")
    autocomplete_fields = tuple(Whose.values)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        names = LimitForm.Meta.fields
        kept = [one for one in Whose.values if obj is None or getattr(obj, f"{one}_id")]
        rest = [one for one in names if one not in Whose.values and (one != Kind.STORAGE or "workspace" in kept)]
        fields = [*kept, *rest, *((in_use,) if obj else ())]
        return [(None, {"fields": fields, "description": EXPLANATION})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Whose it is does not change."""
        return (*Whose.values, in_use) if obj else ()


def _page(limit: Limit) -> str:
    return cells.page_url(Limit, limit.pk)
