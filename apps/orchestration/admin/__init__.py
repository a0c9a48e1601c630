"""Operators' pages of plans and of their runs: pictures, steps, and what is done with a run."""

from apps.orchestration.admin.plans import PlanAdmin
from apps.orchestration.admin.runs import PlanRunAdmin

__all__ = ["PlanAdmin", "PlanRunAdmin"]
