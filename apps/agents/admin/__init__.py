"""Operators' pages of agents, of their versions and of the keys they sign by."""

from apps.agents.admin.keys import SigningKeyAdmin
from apps.agents.admin.registry import AgentAdmin
from apps.agents.admin.versions import AgentVersionAdmin

__all__ = ["AgentAdmin", "AgentVersionAdmin", "SigningKeyAdmin"]
