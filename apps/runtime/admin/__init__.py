"""Operators' pages of what runs: tasks with their actions, and credentials."""

from apps.runtime.admin.credentials import CredentialAdmin, CredentialRequestAdmin
from apps.runtime.admin.tasks import OperatedTaskAdmin

__all__ = ["CredentialAdmin", "CredentialRequestAdmin", "OperatedTaskAdmin"]
