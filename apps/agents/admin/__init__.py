"""Operators' pages of agents and of the keys they sign by."""

from apps.agents.admin.keys import SigningKeyAdmin
from apps.agents.admin.registry import AgentAdmin

__all__ = ["AgentAdmin", "SigningKeyAdmin"]
