"""What evaluations and checked answers say on the page of an agent's versions."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import cast

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString

from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import may_release
from apps.optional.evaluations import evaluating, sampling
from apps.optional.evaluations.models import Evaluation, Example
from parley.faces import cells, charts

DAYS = 30


@dataclass(frozen=True, slots=True)
class Column:
    """What is known of a version."""

    version: AgentVersion
    facts: list[str]


def version_panel(request: HttpRequest, agent: Agent, compared: list[AgentVersion]) -> SafeString:
    """See `version_panels`. Costs and answers are for operators, and examples for them and for who wrote them."""
    user = cast("User", request.user)
    sees_all = user.may_operate("evaluations.view_evaluation")
    found = evaluating.compare(compared)
    since = timezone.now() - datetime.timedelta(days=DAYS)
    by_version, by_day = sampling.counts_by_version(agent, since), sampling.counts_by_day(agent, since)
    names = ["Examples passed", "Mean time of examples", *(["Cost of all examples"] if sees_all else [])]
    columns = [_facts(*one, sees_all=sees_all) for one in zip(compared, found.evaluations, strict=True)]
    if by_day:
        names.append("Checked answers passed")
        for column in columns:
            checked, passed = by_version.get(column.version.number, (0, 0))
            column.facts.append(f"{passed:,} of {checked:,}" if checked else "–")
    has_examples = Example.objects.filter(agent=agent, is_active=True).exists()
    may_act = may_release(user.principal, agent)
    act = evaluating.EVALUATE_BOTH if has_examples and may_act and agent.rollout else None
    if not (any(found.evaluations) or by_day or act):
        return SafeString("")
    about = {
        "agent": agent,
        "versions": compared,
        "rows": list(zip(names, *(column.facts for column in columns), strict=True)),
        "cases": [one for one in found.cases if sees_all or one[0].created_by_id == user.pk],
        "hidden_cases": 0 if sees_all else sum(one[0].created_by_id != user.pk for one in found.cases),
        "is_under_way": found.is_under_way,
        "act": act,
        "days": DAYS,
        "by_day": by_day,
        "picture": _picture(by_day) if len(by_day) > 1 else "",
        "sees_all": sees_all,
    }
    return SafeString(render_to_string("evaluations/_version_panel.html", about, request))


def _facts(version: AgentVersion, one: Evaluation | None, *, sees_all: bool) -> Column:
    if one is None:
        return Column(version, ["–"] * (3 if sees_all else 2))
    totals = vars(one)  # of `with_totals`
    facts = [f"{totals['passed']} of {totals['all']}", cells.duration(totals["seconds"])]
    return Column(version, [*facts, cells.money(totals["cost"])] if sees_all else facts)


def _picture(by_day: list[tuple[datetime.date, int, int]]) -> SafeString:
    passed = [100 * passed / checked for _, checked, passed in by_day]
    summary = f"From {passed[0]:.0f} % on the first day to {passed[-1]:.0f} % on the last."
    return charts.sparkline(passed, "Share of checked answers that passed, by day", summary)
