"""The versions of an agent side by side: which one its sessions use, how each does, and the acts on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts.models import User
from apps.accounts.resources import Act
from apps.agents.models import SEE_VERSIONS, Agent, AgentVersion
from apps.agents.pages.usage import facts_of, last
from apps.agents.registration import REVERT, VERSIONS, OneVersionOnly, may_release
from apps.agents.rollouts.models import Rollout
from apps.agents.rollouts.releasing import (
    KEEP_VERSIONS,
    ROLLOUTS,
    USE_NEWEST,
    can_be_tried,
    find_agent,
    rollout_of,
)
from apps.agents.versions import Standing, run_side_by_side, standing
from apps.analytics.measures import TOPICS, Measures, fold
from apps.analytics.reading import Reading, read
from apps.analytics.rollup import DAY
from apps.web.resources import ResourceForm, do
from apps.web.shell import page, principal_of, reader_view
from parley.faces.cells import money
from parley.registry import added

MOST_SHOWN = 20  # versions
DAYS = 30
OF_AGENT = (KEEP_VERSIONS, USE_NEWEST)


@dataclass(frozen=True, slots=True)
class Row:
    """A version with its numbers and the acts on it."""

    version: AgentVersion
    standing: Standing
    facts: list[str]
    may_revert: bool
    may_try: bool


class PercentForm(ResourceForm):
    class Meta(ResourceForm.Meta):
        model = Rollout
        fields = ("percent",)


@reader_view
def versions(request: HttpRequest, slug: str) -> HttpResponse:
    agent = find_agent(principal_of(request), slug)
    return _page(request, agent)


def _page(request: HttpRequest, agent: Agent, **more: Any) -> HttpResponse:
    principal, user = principal_of(request), cast("User", request.user)
    may_act = run_side_by_side(agent) and may_release(principal, agent)
    sees_costs = user.has_perm(SEE_VERSIONS)
    measured = read(last(DAYS), lambda reading: _by_version(reading, agent))
    shown = AgentVersion.objects.filter(agent=agent).select_related("author").defer("content")
    rows = [_row(one, agent, measured, may_act, sees_costs) for one in shown.order_by("-number")[:MOST_SHOWN]]
    compared = [one.version for one in rows[::-1] if one.standing in (Standing.CURRENT, Standing.CANDIDATE)]
    about = {
        "agent": agent,
        "days": DAYS,
        "rows": rows,
        "headings": [name for name, _ in _facts(Measures(), sees_costs)],
        "may_act": may_act,
        "why_one": "" if run_side_by_side(agent) else OneVersionOnly.__doc__,
        "acts": [one for one in OF_AGENT if may_act and one.is_offered(agent)],
        "rollout": agent.rollout,
        "rollout_acts": ROLLOUTS.acts if agent.rollout and may_act else (),
        "form": PercentForm(user, instance=agent.rollout or Rollout(percent=10)),
        "panels": [SafeString(panel(request, agent, compared)) for panel in added["version_panels"]],
    }
    return page(request, "agents/versions.html", **about, **more)


def _by_version(reading: Reading, agent: Agent) -> dict[int, Measures]:
    plans = {agent.pk} if agent.kind == Agent.Kind.PLAN else set()
    sums = reading.sums(*TOPICS, by=("agent", "version", "label"), step=DAY, agent=agent.pk)
    return fold(sums, lambda key: key.version, plans)


def _row(version: AgentVersion, agent: Agent, measured: dict[int, Measures], may_act: bool, sees_costs: bool) -> Row:
    version.agent = agent
    facts = [value for _, value in _facts(measured.get(version.number, Measures()), sees_costs)]
    may_try = may_act and agent.rollout is None and can_be_tried(version)
    return Row(version, standing(version), facts, may_act and REVERT.is_offered(version), may_try)


def _facts(measures: Measures, sees_costs: bool) -> list[tuple[str, str]]:
    uses, _, _, *others = facts_of(measures)
    told = [uses, ("Failed", f"{measures.failed:,}"), *others]
    cost = "–" if measures.cost_per_use is None else money(measures.cost_per_use)
    return [*told, ("Cost of a use", cost)] if sees_costs else told


@require_POST
@never_cache
@login_required
def act(request: HttpRequest, slug: str) -> HttpResponse:
    """The act that `do` names: on the agent, on its rollout, or on the `version` of the form."""
    agent, name = find_agent(principal_of(request), slug), request.POST.get("do", "")
    for acts, row in ((OF_AGENT, agent), (ROLLOUTS.acts, agent.rollout)):
        found = next((one for one in acts if one.name == name), None)
        if found is not None and row is not None:
            do(request, cast("Act[Any]", found), row)
            return redirect("web:agent-versions", slug)
    version = _version(request, agent) if name == REVERT.name else None
    if version is None:
        messages.error(request, GONE)
    else:
        do(request, REVERT, version)
    return redirect("web:agent-versions", slug)


GONE = "Nothing was done: the page was out of date."


def _version(request: HttpRequest, agent: Agent) -> AgentVersion | None:
    rows = VERSIONS.visible_to(principal_of(request)).filter(agent=agent)
    return rows.find_or_none(principal_of(request), request.POST.get("version", ""))


@require_POST
@never_cache
@login_required
def roll_out(request: HttpRequest, slug: str) -> HttpResponse:
    """Begins a rollout of the form's `version`, or changes the percent of its one."""
    agent = find_agent(principal_of(request), slug)
    version = _version(request, agent)
    if version is None:
        messages.error(request, GONE)
        return redirect("web:agent-versions", slug)
    row = rollout_of(version, 0)
    form = PercentForm(cast("User", request.user), request.POST, instance=row)
    if form.is_valid() and form.is_saved(ROLLOUTS):
        return redirect("web:agent-versions", slug)
    problem = " ".join(str(sentence) for said in form.errors.values() for sentence in said)
    response = _page(request, agent, problem=problem)
    response.status_code = 422
    return response
