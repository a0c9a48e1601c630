"""What language models cost in the person's workspace, by month, and how much of its limits it uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import path

from apps.accounts.models import ApiKey
from apps.accounts.principals import Principal
from apps.budgets.models import NOTICE_SHARE, Budget, Measure, Spending, first_of_month
from apps.budgets.spending import refusal, snapshot, sums
from apps.engine.uses import uses_of
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
        budgets=list(_budgets(principal)) if month == first_of_month() else [],
        uses=uses_of(Holder(Whose.WORKSPACE, principal.workspace_id or 0)),
    )


@dataclass(frozen=True, slots=True)
class Part:
    """What is used of one limit of a budget."""

    of: str
    measure: Measure
    limit: float
    used: float
    says: str  # why models are not called any more

    @property
    def title(self) -> str:
        return f"{self.of}, {self.measure.label}"

    @property
    def words(self) -> str:
        return f"{self.measure.text(self.used)} of {self.measure.text(self.limit)}"

    @property
    def is_near(self) -> bool:
        return self.used >= NOTICE_SHARE * self.limit


def _budgets(principal: Principal) -> Iterator[Part]:
    """Those of the workspace and of the person's keys there, of all agents."""
    keys = ApiKey.objects.visible_to(principal).filter(workspace=principal.workspace_id)
    known = Budget.objects.filter(Q(workspace=principal.workspace_id or 0) | Q(api_key__in=keys), agent=None)
    for budget in known.select_related("api_key"):
        used = snapshot().used_of(budget)
        limits = budget.limits
        if budget.soft_limit is not None:
            limits.setdefault(Measure.COST, budget.soft_limit)
        for measure, limit in limits.items():
            is_spent = measure in budget.limits and used.of(measure) >= limit
            of = budget.api_key.name if budget.api_key else "Workspace"
            yield Part(of, measure, limit, used.of(measure), refusal(budget, measure) if is_spent else "")


urlpatterns = [
    path("settings/usage", usage, name="settings-usage"),
]
