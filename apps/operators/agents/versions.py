"""Versions of agents: what changed from one to another, and the way back."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from unfold.decorators import action

from apps.accounts.models import User
from apps.agents.definitions import as_yaml
from apps.agents.differences import side_by_side
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import explain, go_back, goes_back
from console import cells
from console.cells import Tone
from console.records import ReadOnlyAdmin, timed

BACK = {
    "title": "Go back to this version?",
    "description": "The agent is at once what this version says, by a new one. What runs goes on as it began.",
    "form_submit_text": "Go back",
}


@admin.register(AgentVersion)
class AgentVersionAdmin(ReadOnlyAdmin):
    """Looking at versions needs its own permission, going back that to change agents."""

    list_display = ("shown_number", "shown_agent", "state", "note", "shown_author", timed("created_at"), "digest")
    list_filter = ("agent__kind",)
    list_select_related = ("agent__current_version", "author")
    search_fields = ("agent__slug", "agent__name", "note")
    search_help_text = "Agent's name, or a note"
    ordering = ("-created_at", "-number")
    narrowings = {"agent__id__exact": ("agent", Agent)}
    fields = ("shown_number", "shown_agent", "state", "note", "shown_author", timed("created_at"), "digest")
    change_form_outer_after_template = "admin/agents/version.html"
    actions_detail = ("go_back", "download")

    def has_operate_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        return request.user.has_perm("agents.change_agent")

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """There is no going back to what the agent is, nor for one that is what its handler says."""
        offered: list[Any] = super().get_actions_detail(request, object_id)
        shown = self.get_object(request, object_id)  # None for an id that is none
        if shown and goes_back(shown.agent) and shown.agent.current_version_id != shown.pk:
            return offered
        return [one for one in offered if one.path != "go-back"]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        context |= _compared(obj, request.GET.get("against", ""))
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    @action(description="Go back to it", permissions=["operate"], icon="undo", dialog=BACK, url_path="go-back")
    def go_back(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        version = self._found(request, object_id)
        try:
            made = go_back(version, request.user)  # type: ignore[arg-type]
        except ValidationError as error:
            messages.error(request, f"{version.agent} stays as it is. {explain(error)}")
            return HttpResponse(headers={"HX-Redirect": cells.page_url(AgentVersion, object_id)})
        self.log_change(request, version.agent, f"Back to version {version.number}, as version {made.number}.")
        messages.success(request, f"{version.agent} is what version {version.number} says, as version {made.number}.")
        return HttpResponse(headers={"HX-Redirect": cells.page_url(AgentVersion, made.pk)})

    @action(description="Download as YAML", permissions=["view"], icon="download", url_path="yaml")
    def download(self, request: HttpRequest, object_id: str) -> HttpResponse:
        version = self._found(request, object_id)
        name = f"{version.agent.slug}-{version.number}.yaml"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(as_yaml(version.content), content_type="application/yaml", headers=headers)

    def _found(self, request: HttpRequest, object_id: str) -> AgentVersion:
        if (version := self.get_object(request, object_id)) is None:
            raise Http404
        return version

    @display(description="version", ordering="number")
    def shown_number(self, version: AgentVersion) -> SafeString:
        return cells.link(version.number, cells.page_url(AgentVersion, version.pk))

    @display(description="agent", ordering="agent__name")
    def shown_agent(self, version: AgentVersion) -> SafeString:
        return cells.link(version.agent, cells.page_url(Agent, version.agent_id))

    @display(description="state")
    def state(self, version: AgentVersion) -> SafeString:
        current = version.agent.current_version
        if current == version:
            return cells.state("current", Tone.DONE)
        is_later = current is not None and current.number < version.number  # of a remote agent: see its note
        return cells.state("not taken", Tone.WAITING) if is_later else cells.state("earlier", Tone.STOPPED)

    @display(description="made by", ordering="author__email")
    def shown_author(self, version: AgentVersion) -> SafeString | str:
        return cells.link(version.author, cells.page_url(User, version.author_id)) if version.author else "the platform"

    @display(description="SHA-256")
    def digest(self, version: AgentVersion) -> SafeString:
        return cells.ident(version.sha256)


def _compared(version: AgentVersion, against: str) -> dict[str, Any]:
    """The version as text, and beside another of its agent: the one before it unless a number says which."""
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
