"""Admin pages of agents' versions: differences, going back, and downloads."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin import display
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminSelectWidget

from apps.accounts.models import User
from apps.agents.definitions import as_yaml
from apps.agents.models import Agent, AgentVersion
from apps.agents.pages.agents import choices_of_versions
from apps.agents.registration import REVERT, RIGHT_TO_REVERT, VERSIONS
from apps.agents.versions import side_by_side
from apps.engine.send import chosen_version
from apps.operators.actions import ActingAdmin
from apps.operators.bulk import RowAction
from parley.faces import cells
from parley.faces.admin import MenuItem, ReadOnlyAdmin, id_cell, redirect_dialog, related_cell
from parley.faces.cells import Tone


class VersionForm(BaseDialogForm):
    """A dialog in which operators may choose with which version of an agent something runs again."""

    version = forms.TypedChoiceField(coerce=int, empty_value=None, required=False, widget=UnfoldAdminSelectWidget)

    def offer_versions(self, agent: Agent) -> None:
        found = choices_of_versions(cast("User", self.request.user).principal, agent)
        if not found:
            del self.fields["version"]
            return
        numbers = [(one.number, f"Version {one.number}") for one in found if one.pk != agent.current_version_id]
        cast("forms.ChoiceField", self.fields["version"]).choices = [("", "The current one"), *numbers]

    def chosen_version(self, agent: Agent) -> AgentVersion | None:
        """Raises InvalidFields."""
        return chosen_version(cast("User", self.request.user).principal, agent, self.cleaned_data.get("version"))


@admin.register(AgentVersion)
class AgentVersionAdmin(ActingAdmin, ReadOnlyAdmin):
    """Viewing has its own permission; going back needs permission to change agents."""

    menu = MenuItem("Registry", 2, "history")
    resource = VERSIONS
    acts = (REVERT,)
    list_display = (
        "number",
        related_cell("agent", ordering="agent__name"),
        "state",
        "note",
        related_cell("author", "made by", ordering="author__email", empty="the platform"),
        "created_at",
        id_cell("sha256", "SHA-256"),
    )
    list_filter = ("agent__kind",)
    select_related = ("agent__current_version", "author")
    search_fields = ("agent__slug", "agent__name", "note")
    search_help_text = "Agent name or note"
    ordering = ("-created_at", "-number")
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = list_display
    change_form_outer_after_template = "admin/agents/version.html"
    actions_detail = ("download",)
    operate_permission = RIGHT_TO_REVERT

    def page_after(self, action: RowAction, row: AgentVersion) -> HttpResponse:
        """The current version, which the button makes."""
        return redirect_dialog(AgentVersion, row.agent.current_version_id)

    def page_context(self, request: HttpRequest, row: AgentVersion) -> dict[str, Any]:
        return _diff_context(row, request.GET.get("against", ""))

    @action(description="Download as YAML", permissions=["view"], icon="download", url_path="yaml")
    def download(self, request: HttpRequest, object_id: str) -> HttpResponse:
        version = self.get_or_404(request, object_id)
        name = f"{version.agent.slug}-{version.number}.yaml"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(as_yaml(version.content), content_type="application/yaml", headers=headers)

    @display(description="state")
    def state(self, version: AgentVersion) -> SafeString:
        current = version.agent.current_version
        if current == version:
            return cells.state("current", Tone.DONE)
        is_later = current is not None and current.number < version.number  # of a remote agent: see its note
        return cells.state("not approved", Tone.WAITING) if is_later else cells.state("earlier", Tone.STOPPED)


def _diff_context(version: AgentVersion, against: str) -> dict[str, Any]:
    """A version as text, and its difference, by default from the previous one."""
    others = version.agent.versions.exclude(pk=version.pk).select_related("agent").order_by("-number")
    number = int(against) if against.isdecimal() and len(against) < 10 else version.number - 1
    other = others.filter(number=number).first()
    older, newer = (other, version) if other is None or other.number < version.number else (version, other)
    text = as_yaml(version.content)
    pairs = side_by_side(as_yaml(older.content), as_yaml(newer.content)) if older else []
    return {
        "text": text,
        "numbers": list(others.values_list("number", flat=True)[:200]),
        "other": other,
        "older": older,
        "newer": newer,
        "pairs": pairs,
    }
