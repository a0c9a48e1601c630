"""Operators' pages of what runs: agents with what was measured of them, tasks with their actions, and credentials."""

from apps.operators.engine.agents import MeasuredAgentAdmin
from apps.operators.engine.credentials import CredentialAdmin, CredentialRequestAdmin
from apps.operators.engine.tasks import OperatedTaskAdmin

__all__ = ["CredentialAdmin", "CredentialRequestAdmin", "MeasuredAgentAdmin", "OperatedTaskAdmin"]
