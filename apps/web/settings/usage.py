"""What language models cost in the person's workspace, by month, and how much of its limits it uses."""

from __future__ import annotations

import datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from apps.engine.uses import uses_of
from apps.features.budgets.models import NOTICE_SHARE, Budget, Spending, first_of_month
from apps.features.budgets.spending import refusal, sums
from apps.limits.current import Holder
from apps.limits.models import Whose
from apps.record.models import Context
from apps.web.settings.sections import person_of, private_view, settings_page

MONTHS = 12
SESSIONS = 20  # the most expensive ones


@private_view
def usage(request: HttpRequest) -> HttpResponse:
    principal = person_of(request).principal
    own = Spending.objects.visible_to(principal)
    months = sorted({first_of_month(), *own.order_by().values_list("month", flat=True).distinct()}, reverse=True)
    month = next((one for one in months if f"{one:%Y-%m}" == request.GET.get("month")), months[0])
    rows = own.filter(month=month)
    by_session = sums(rows, "context")[:SESSIONS]
    titles = dict(
        Context.objects.of(principal).filter(pk__in=[key for key, _ in by_session]).values_list("pk", "title")
    )
    by_agent = sums(rows, "agent__name")
    return settings_page(
        request,
        "usage",
        months=[(f"{one:%Y-%m}", f"{one:%B %Y}", one == month) for one in months[:MONTHS]],
        month=f"{month:%B %Y}",
        total=sum(cost for _, cost in by_agent),
        by_agent=by_agent,
        by_model=sums(rows, "model"),
        by_session=[(key, titles.get(key), cost) for key, cost in by_session],
        budget=_budget(principal.workspace_id, month, rows),
        uses=uses_of(Holder(Whose.WORKSPACE, principal.workspace_id or 0)),
    )


def _budget(workspace: int | None, month: datetime.date, rows: Any) -> dict[str, Any] | None:
    """The workspace's budget this month, of all agents."""
    budget = Budget.objects.filter(~Q(workspace=None), workspace=workspace, agent=None).first()
    if budget is None or month != first_of_month():
        return None
    spent = sum(cost for _, cost in sums(rows, "workspace"))
    limit = budget.hard_limit or budget.soft_limit or 0.0
    is_spent = budget.hard_limit is not None and spent >= budget.hard_limit
    return {
        "spent": spent,
        "limit": limit,
        "says": refusal(budget) if is_spent else "",
        "is_near": spent >= NOTICE_SHARE * limit,
    }
