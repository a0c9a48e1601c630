"""Settings → Guardrails: the list, a guardrail with a trial and its numbers, and which hold for an agent."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import path
from django.utils.safestring import SafeString

from apps.agents.models import Agent
from apps.engine.turns.guards import Way
from apps.optional.guardrails import current, decisions, rails
from apps.optional.guardrails.forms import GuardrailForm
from apps.optional.guardrails.models import Guardrail
from apps.record.errors import InvalidFields
from apps.web.settings.resources import SectionPages
from apps.web.settings.sections import person_of, private_view
from apps.web.shell import principal_of
from parley import db

MAX_SAMPLE = 20_000  # characters


def line(rail: Guardrail, *, names_agents: bool = True) -> str:
    """Such as “Personal data and secrets in what goes to agents: hide what was found · for echo”."""
    what = f"{rail.get_check_kind_display().capitalize()} in {_direction(rail)}: {rail.get_action_display()}"
    named = rail.agents if names_agents else []
    of = f"for {', '.join(named[:3])}{'…' if len(named) > 3 else ''}" if named else ""
    state = "" if rail.is_on else "off"
    watched = "only watches" if rail.only_watch and rail.is_on else ""
    return " · ".join(one for one in (what, of, watched, state) if one)


def _direction(rail: Guardrail) -> str:
    return "both directions" if rail.direction == Guardrail.Direction.BOTH else rail.get_direction_display()


class GuardrailPages(SectionPages[Guardrail]):
    def show_form(self, request: HttpRequest, form: Any, **more: Any) -> HttpResponse:
        """With the numbers of a guardrail that is there, and what a trial said."""
        row = form.instance
        if not row._state.adding:
            newest = decisions.newest(principal_of(request), row)
            more |= {"numbers": decisions.numbers(row), "decisions": newest, "days": decisions.DAYS}
        asked = {"sample": request.POST.get("sample", "")[:MAX_SAMPLE], "way": request.POST.get("way", Way.IN.value)}
        return super().show_form(request, form, **asked, **more)

    def form_of(self, request: HttpRequest, key: uuid.UUID | None) -> GuardrailForm:
        """What was filled in, of a new guardrail or one that is there. Raises NotFound."""
        person = person_of(request)
        row = self.resource.find(person.principal, key) if key else Guardrail()
        return GuardrailForm(person, request.POST, instance=row)


PAGES = GuardrailPages(
    rails.GUARDRAILS, GuardrailForm, section="guardrails", icon="seal", line=line,
    about="Checks on what goes to agents and comes from them.",
)  # fmt: skip


@private_view
async def try_out(request: HttpRequest, guardrail: uuid.UUID | None = None) -> HttpResponse:
    """What the guardrail of the form would do with a sample. Nothing is saved."""
    form = await db.run(PAGES.form_of, request, guardrail)
    trial = None
    if await db.run(form.is_valid):
        way = Way.OUT if request.POST.get("way") == Way.OUT else Way.IN
        try:
            trial = await rails.try_out(form.instance, request.POST.get("sample", "")[:MAX_SAMPLE], way)
        except InvalidFields as refusal:
            form.add_refusal(refusal)
    return await db.run(lambda: PAGES.show_form(request, form, trial=trial))


def agent_part(request: HttpRequest, agent: Agent) -> SafeString:
    """On the page of an agent: the guardrails that hold for it in the reader's workspace."""
    principal = principal_of(request)
    holding = [one.row for one in current.rails_now() if current.holds(one, agent, principal.workspace_id)]
    if not holding:
        return SafeString()
    seen = set(Guardrail.objects.visible_to(principal).values_list("pk", flat=True))
    shown = [(one, line(one, names_agents=one.pk in seen), one.pk in seen) for one in holding]
    return render_to_string("guardrails/_agent.html", {"rails": shown}, request)


urlpatterns = [
    path("settings/guardrails/try", try_out, name="settings-new-guardrail-try"),
    path("settings/guardrails/<uuid:guardrail>/try", try_out, name="settings-guardrail-try"),
    *PAGES.urls(),
]
