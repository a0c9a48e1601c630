"""Operators' pages of what runs: agents with what was measured of them, tasks with their actions, and credentials."""

from apps.runtime.admin.agents import MeasuredAgentAdmin
from apps.runtime.admin.credentials import CredentialAdmin, CredentialRequestAdmin
from apps.runtime.admin.tasks import OperatedTaskAdmin

__all__ = ["CredentialAdmin", "CredentialRequestAdmin", "MeasuredAgentAdmin", "OperatedTaskAdmin"]
