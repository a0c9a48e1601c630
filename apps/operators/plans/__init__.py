"""Operators' pages of plans and of their runs: pictures, steps, and what is done with a run."""

from apps.operators.plans.plans import PlanAdmin
from apps.operators.plans.runs import PlanRunAdmin

__all__ = ["PlanAdmin", "PlanRunAdmin"]
