"""What becomes of runs when their conversations are put away: what steps refer to stays in the tables."""

from __future__ import annotations

from django.db.models import Q

from apps.plans.models import PlanRun, Step
from apps.record.models import Context


def waits(context: Context) -> str:
    """Why the context has to stay in the tables (`COLD_OBSTACLES`)."""
    is_plans = PlanRun.objects.filter(task__context=context).exists()
    is_steps = Step.objects.filter(Q(task__context=context) | Q(consulted__context=context)).exists()
    return "A run of a plan refers to it." if is_plans or is_steps else ""


def hold(context: Context) -> None:
    """Have the context's runs looked at by nobody until this transaction is over (`BEFORE_ERASURE`).

    Whoever looks locks the run, and then steps; deleting a run begins with its steps.
    """
    list(PlanRun.objects.select_for_update().filter(task__context=context).order_by("pk").values_list("pk"))
