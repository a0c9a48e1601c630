"""Records what runs spend, and refuses more where a budget's hard limit is reached.

Each process reads the month's sums every CACHE_SECONDS. So a limit can be exceeded by what is spent meanwhile, and by
turns that are under way: what they used counts for others when they end.
"""

from __future__ import annotations

import datetime
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet, Sum
from django.utils import timezone

import db
from agentkit.errors import AgentFailure
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.assignment import current_assignment
from apps.features.budgets.models import Budget, Spending, first_of_month
from apps.record.errors import BudgetSpent
from apps.record.events import JSON
from apps.record.models import Task

CACHE_SECONDS = 5.0
COUNTED = {"requests": "requests", "input_tokens": "inputTokens", "output_tokens": "outputTokens"}


def record_usage(run: uuid.UUID, task: Task, agent: int, usage: JSON) -> None:
    """A usage listener (`apps.record.hooks`). A repeated run replaces what it recorded: its usage is its total."""
    now = timezone.now()
    rows = [
        Spending(
            run=run,
            model=model[:200],
            month=first_of_month(now.astimezone(datetime.UTC).date()),
            at=now,
            workspace_id=task.workspace_id,
            agent_id=agent,
            context=task.context_id,
            cost=counts.get("cost", 0.0),
            **{name: counts[key] for name, key in COUNTED.items()},
        )
        for model, counts in usage.get("models", {}).items()
    ]
    changed = [*COUNTED, "cost", "at", "month"]
    Spending.objects.bulk_create(rows, update_conflicts=True, unique_fields=["run", "model"], update_fields=changed)


Scope = tuple[int | None, int | None]
"""A workspace and an agent; None: all of them."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The budgets, and what was spent this month."""

    budgets: Sequence[Budget] = ()
    spent: Mapping[Scope, float] = field(default_factory=dict)
    month: datetime.date = datetime.date.min
    read_at: float = float("-inf")  # by `time.monotonic`

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.read_at < CACHE_SECONDS and self.month == first_of_month()

    def spent_of(self, budget: Budget) -> float:
        return self.spent.get((budget.workspace_id, budget.agent_id), 0.0)

    def exhausted(self, workspace: int | None, agent: int | None, under_way: float = 0.0) -> Budget | None:
        """The budget whose hard limit keeps this agent from spending more for this workspace."""
        for budget in self.budgets:
            is_meant = budget.workspace_id in (None, workspace) and budget.agent_id in (None, agent)
            if is_meant and budget.hard_limit is not None and self.spent_of(budget) + under_way >= budget.hard_limit:
                return budget
        return None

    def is_costly(self, agent: Agent) -> bool:
        """Does it call language models, as far as is known?"""
        return agent.kind == Agent.Kind.MODEL or self.spent.get((None, agent.pk), 0.0) > 0


_kept = Snapshot()


def snapshot() -> Snapshot:
    """For database threads: two queries, the second only if there are budgets."""
    global _kept
    if not _kept.is_fresh:
        month, read_at = first_of_month(), time.monotonic()
        budgets = list(Budget.objects.select_related("workspace", "agent"))
        _kept = Snapshot(budgets, _spent(month) if budgets else {}, month, read_at)
    return _kept


def forget() -> None:
    """Read the rows again before the next use."""
    global _kept
    _kept = Snapshot()


def _spent(month: datetime.date) -> dict[Scope, float]:
    sums: Counter[Scope] = Counter()
    found = Spending.objects.filter(month=month).order_by().values_list("workspace", "agent").annotate(Sum("cost"))
    for workspace, agent, cost in found:
        for scope in {(workspace, agent), (workspace, None), (None, agent), (None, None)}:
            sums[scope] += cost
    return dict(sums)


def sums(rows: QuerySet[Spending], by: str, most: int | None = None) -> list[tuple[Any, float]]:
    """The cost by a column, the greatest first."""
    found = rows.order_by().values_list(by).annotate(sum=Sum("cost")).order_by("-sum", by)
    return [(name, cost) for name, cost in found[:most]]


def check_budget(principal: Principal, agent: Agent) -> None:
    """A send obstacle (`apps.record.hooks`). Raises BudgetSpent, only for agents that spend."""
    known = snapshot()
    if known.is_costly(agent) and (budget := known.exhausted(principal.workspace_id, agent.pk)):
        raise BudgetSpent(refusal(budget))


async def check_model_call(cost: float) -> None:
    """A model obstacle: called before each request of a turn, with the cost of this use of the model so far.

    Without a run, nothing is recorded as spent, so nothing is refused. Raises AgentFailure.
    """
    if (held := current_assignment.get()) is None:
        return
    known = _kept if _kept.is_fresh else await db.run(snapshot)
    if budget := known.exhausted(held.task.workspace_id, held.agent.pk, held.spent + cost):
        raise AgentFailure(refusal(budget), "budget_spent")


def refusal(budget: Budget) -> str:
    """Names no amounts: whoever asks may not be the one who pays."""
    if budget.agent_id is not None:
        whose = "The agent's budget"
    elif budget.workspace_id is not None:
        whose = "The workspace's budget"
    else:
        whose = "The installation's budget"
    following = (first_of_month() + datetime.timedelta(days=32)).replace(day=1)
    return (
        f"{whose} for language models is spent for this month. "
        f"It starts again on {following:%B} {following.day}. An operator can raise it."
    )
