"""Records what runs spend, and refuses more where a budget's hard limit is reached.

Each process reads the month's sums every CACHE_SECONDS. So a limit can be exceeded by what is spent meanwhile, and by
turns that are under way: what they used counts for others when they end.
"""

from __future__ import annotations

import datetime
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from agentkit.errors import AgentFailure
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.budgets.models import Budget, Measure, Spending, first_of_month
from apps.engine.queue import Lane
from apps.engine.turns.assignment import current_assignment, spends_for
from apps.limits import current as limits
from apps.limits.current import Exceeded
from apps.limits.models import Whose
from apps.record.errors import BudgetSpent
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.models import Task
from parley import db

CACHE_SECONDS = 5.0
COUNTED = {"requests": "requests", "input_tokens": "inputTokens", "output_tokens": "outputTokens"}


def record_usage(run: uuid.UUID, task: Task, agent: int, usage: JSON) -> None:
    """A usage listener (`parley.registry`). A repeated run replaces what it recorded: its usage is its total.

    What is used outside of runs, such as for a title, has a key of its own instead of a run's.
    """
    now, lane = timezone.now(), Run.objects.filter(pk=run).values_list("lane", flat=True).first()
    key = Lane.read(lane).key if lane else ""
    rows = [
        Spending(
            run=run,
            model=model[:200],
            month=first_of_month(now.astimezone(datetime.UTC).date()),
            at=now,
            workspace_id=task.workspace_id,
            agent_id=agent,
            key=key,
            context=task.context_id,
            cost=counts.get("cost", 0.0),
            **{name: counts[told] for name, told in COUNTED.items()},
        )
        for model, counts in usage.get("models", {}).items()
    ]
    changed = [*COUNTED, "cost", "at", "month"]
    Spending.objects.bulk_create(rows, update_conflicts=True, unique_fields=["run", "model"], update_fields=changed)


class Scope(NamedTuple):
    """Whose spending it is; None: all of them."""

    workspace: int | None = None
    agent: int | None = None
    key: str | None = None  # the public name of an API key; "" if none was used

    @classmethod
    def of(cls, budget: Budget) -> Scope:
        return cls(budget.workspace_id, budget.agent_id, budget.key)

    @property
    def wider(self) -> set[Scope]:
        """All scopes that this one counts for, itself included."""
        workspaces, agents, keys = {self.workspace, None}, {self.agent, None}, {self.key or None, None}
        return {Scope(*one) for one in product(workspaces, agents, keys)}

    @property
    def whose(self) -> str:
        """Of the limits of this scope, in words of `limits.Whose`; "installation" if it is everything's."""
        found = {Whose.AGENT: self.agent, Whose.KEY: self.key, Whose.WORKSPACE: self.workspace}
        return next((whose.value for whose, one in found.items() if one is not None), INSTALLATION)


INSTALLATION = "installation"
WORDS = {
    Whose.AGENT.value: "The agent's",
    Whose.KEY.value: "The API key's",
    Whose.WORKSPACE.value: "The workspace's",
    INSTALLATION: "The installation's",
}


class Used(NamedTuple):
    cost: float = 0.0
    tokens: int = 0

    def plus(self, cost: float, tokens: int) -> Used:
        return Used(self.cost + cost, self.tokens + tokens)

    def of(self, measure: Measure) -> float:
        return self.tokens if measure is Measure.TOKENS else self.cost


NOTHING = Used()


class Reached(NamedTuple):
    """A limit of a budget that keeps an agent from spending more."""

    budget: Budget
    measure: Measure
    used: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The budgets, and what was used this month."""

    budgets: Sequence[Budget] = ()
    used: Mapping[Scope, Used] = field(default_factory=dict)
    month: datetime.date = datetime.date.min
    read_at: float = float("-inf")  # by `time.monotonic`

    @property
    def is_fresh(self) -> bool:
        is_new = time.monotonic() - self.read_at < CACHE_SECONDS
        return is_new and (not self.budgets or self.month == first_of_month())

    def used_of(self, budget: Budget) -> Used:
        return self.used.get(Scope.of(budget), NOTHING)

    def reached(self, scope: Scope, under_way: Used = NOTHING) -> Reached | None:
        """The first limit that keeps this agent from spending more for this workspace and key."""
        wider = scope.wider if self.budgets else ()
        for budget in self.budgets:
            if Scope.of(budget) in wider:
                used = self.used_of(budget).plus(*under_way)
                for measure, limit in budget.limits.items():
                    if used.of(measure) >= limit:
                        return Reached(budget, measure, used.of(measure))
        return None

    def is_costly(self, agent: Agent) -> bool:
        """Does it call language models, as far as is known?"""
        return agent.kind == Agent.Kind.MODEL or any(self.used.get(Scope(agent=agent.pk), NOTHING))


_kept = Snapshot()


def snapshot() -> Snapshot:
    """For database threads: two queries, the second only if there are budgets."""
    global _kept
    kept = _kept  # another thread may forget it meanwhile
    if not kept.is_fresh:
        month, read_at = first_of_month(), time.monotonic()
        budgets = list(Budget.objects.select_related("workspace", "agent", "api_key"))
        _kept = kept = Snapshot(budgets, _used(month) if budgets else {}, month, read_at)
    return kept


def forget() -> None:
    """Read the rows again before the next use."""
    global _kept
    _kept = Snapshot()
    limits.forget()


TOKENS = F("input_tokens") + F("output_tokens")


def _used(month: datetime.date) -> dict[Scope, Used]:
    used: dict[Scope, Used] = {}
    rows = Spending.objects.filter(month=month).order_by().values_list("workspace", "agent", "key")
    for *scope, cost, tokens in rows.annotate(spent=Sum("cost"), tokens=Sum(TOKENS)):
        for one in Scope(*scope).wider:
            used[one] = used.get(one, NOTHING).plus(cost, tokens)
    return used


def sums(rows: QuerySet[Spending], by: str, most: int | None = None) -> list[tuple[Any, float]]:
    """The cost by a column, the greatest first."""
    found = rows.order_by().values_list(by).annotate(sum=Sum("cost")).order_by("-sum", by)
    return [(name, cost) for name, cost in found[:most]]


def obstacle() -> limits.Obstacle | None:
    """A send obstacle (`parley.registry`)."""
    global _kept
    if not Budget.objects.exists():
        return None
    if not _kept.budgets:
        _kept = Snapshot()  # these are new
    return check_budget


def check_budget(principal: Principal, agent: Agent) -> None:
    """Raises BudgetSpent, only for agents that spend."""
    if not (known := snapshot()).budgets:
        return
    scope = Scope(principal.workspace_id or agent.workspace_id, agent.pk, principal.key)
    if known.is_costly(agent) and (reached := known.reached(scope)):
        raise BudgetSpent(_exceeded(reached, principal))


async def check_model_call(cost: float, tokens: int) -> None:
    """A model obstacle: called before each request of a turn, with what this use of the model has used so far.

    Without a run or `spends_for`, nothing is recorded as spent, so nothing is refused. Raises AgentFailure.
    """
    held, lane = current_assignment.get(), spends_for.get()
    under_way = Used(cost, tokens)
    if held is not None:
        lane, under_way = Lane.read(held.lane), under_way.plus(held.cost, held.tokens)
        lane = Lane(held.task.workspace_id, held.agent.pk, lane.key)
    if lane is None:
        return
    known = _kept if _kept.is_fresh else await db.run(snapshot)
    if reached := known.reached(Scope(*lane), under_way):
        raise AgentFailure(refusal(reached.budget, reached.measure), "budget_spent")


def _exceeded(reached: Reached, principal: Principal) -> Exceeded:
    """Amounts are only for those who pay: not for callers of an agent from other workspaces."""
    budget, measure, used = reached
    pays = budget.api_key is not None or (budget.workspace_id or 0) == principal.workspace_id
    limit, spent = (budget.limits[measure], round(used, 6)) if pays else (None, None)
    wait = math.ceil((_next_month() - timezone.now()).total_seconds())
    return Exceeded(refusal(budget, measure), measure.value, Scope.of(budget).whose, limit, spent, wait)


def refusal(budget: Budget, measure: Measure = Measure.COST) -> str:
    """Names no amounts: whoever asks may not be the one who pays."""
    what = "budget of tokens" if measure is Measure.TOKENS else "budget for language models"
    following = _next_month()
    return (
        f"{WORDS[Scope.of(budget).whose]} {what} is spent for this month. "
        f"It starts again on {following:%B} {following.day}. An operator can raise it."
    )


def _next_month() -> datetime.datetime:
    day = (first_of_month() + datetime.timedelta(days=32)).replace(day=1)
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)
