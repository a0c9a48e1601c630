"""Admin pages of agents' versions: differences, going back, and downloads."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import display
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from apps.accounts.errors import Refusal
from apps.accounts.models import User
from apps.agents.definitions import as_yaml
from apps.agents.models import Agent, AgentVersion
from apps.agents.pages.agents import choices_of_versions
from apps.agents.registration import REVERT, RIGHT_TO_RELEASE, VERSIONS
from apps.agents.rollouts.models import Rollout
from apps.agents.rollouts.releasing import ROLLOUTS, can_be_tried, rollout_of
from apps.agents.versions import Standing, side_by_side, standing
from apps.engine.send import chosen_version
from apps.operators.actions import ActingAdmin
from apps.operators.bulk import RowAction
from parley.faces import cells
from parley.faces.admin import MenuItem, ReadOnlyAdmin, id_cell, redirect_dialog, related_cell
from parley.faces.cells import Tone

TONES = {
    Standing.CURRENT: Tone.DONE,
    Standing.CANDIDATE: Tone.WORKING,
    Standing.PROPOSED: Tone.WAITING,
    Standing.WITHDRAWN: Tone.FAILED,
}


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


class RolloutForm(BaseDialogForm):
    """Which part of new sessions tries a version."""

    percent = forms.IntegerField(
        min_value=0, max_value=100, initial=10, help_text="Of new sessions.", widget=UnfoldAdminIntegerFieldWidget
    )


ROLLOUT_DIALOG: Any = {
    "title": "Try this version with new sessions?",
    "description": "A part of new sessions gets it, and keeps it until it is promoted or abandoned.",
    "form_submit_text": "Try it",
    "form_class": RolloutForm,
}


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
    select_related = ("agent__current_version", "agent__rollout", "author")
    search_fields = ("agent__slug", "agent__name", "note")
    search_help_text = "Agent name or note"
    ordering = ("-created_at", "-number")
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = list_display
    change_form_outer_after_template = "admin/agents/version.html"
    actions_detail = ("roll_out", "download")
    operate_permission = RIGHT_TO_RELEASE

    def page_after(self, action: RowAction, row: AgentVersion) -> HttpResponse:
        """The current version, which the button makes."""
        return redirect_dialog(AgentVersion, row.agent.current_version_id)

    def page_context(self, request: HttpRequest, row: AgentVersion) -> dict[str, Any]:
        return _diff_context(row, request.GET.get("against", ""))

    def is_offered(self, action: str, row: AgentVersion) -> bool:
        return can_be_tried(row) if action == "roll_out" else super().is_offered(action, row)

    @action(
        description="Try with new sessions",
        permissions=["operate"],
        icon="science",
        dialog=ROLLOUT_DIALOG,
        url_path="roll_out",
    )
    def roll_out(self, request: HttpRequest, form: RolloutForm, object_id: str) -> HttpResponse:
        """Begins a rollout, or changes the percent of this version's."""
        version = self.get_or_404(request, object_id)
        rollout = rollout_of(version, form.cleaned_data["percent"])
        try:
            ROLLOUTS.store(cast("User", request.user).principal, rollout)
        except Refusal as refusal:
            messages.error(request, str(refusal))
            return redirect_dialog(AgentVersion, object_id)
        messages.success(request, f"{rollout.percent} % of new sessions get {version}.")
        return redirect_dialog(Rollout, rollout.pk)

    @action(description="Download as YAML", permissions=["view"], icon="download", url_path="yaml")
    def download(self, request: HttpRequest, object_id: str) -> HttpResponse:
        version = self.get_or_404(request, object_id)
        name = f"{version.agent.slug}-{version.number}.yaml"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(as_yaml(version.content), content_type="application/yaml", headers=headers)

    @display(description="state")
    def state(self, version: AgentVersion) -> SafeString:
        found = standing(version)
        return cells.state(found.label, TONES.get(found, Tone.STOPPED))


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


@admin.register(Rollout)
class RolloutAdmin(ActingAdmin, ReadOnlyAdmin):
    menu = MenuItem("Registry", 3, "science")
    resource = ROLLOUTS
    acts = ROLLOUTS.acts
    list_display = (
        related_cell("candidate", "version"),
        related_cell("agent", ordering="agent__name"),
        "percent",
        "state",
        related_cell("started_by", "started by", ordering="started_by__email", empty="a deleted account"),
        "created_at",
        "ended_at",
    )
    list_filter = ("outcome",)
    search_fields = ("agent__slug", "agent__name")
    ordering = ("-created_at",)
    link_filters = {"agent__id__exact": ("agent", Agent)}
    select_related = ("agent__current_version", "candidate__agent", "started_by")
    fields = list_display

    @display(description="state")
    def state(self, rollout: Rollout) -> SafeString:
        tones = {Rollout.Outcome.UNDER_WAY: Tone.WORKING, Rollout.Outcome.PROMOTED: Tone.DONE}
        return cells.state(rollout.get_outcome_display(), tones.get(Rollout.Outcome(rollout.outcome), Tone.STOPPED))
