"""Operators' pages of agents, of their versions and of the keys they sign by."""

from apps.operators.agents.keys import SigningKeyAdmin
from apps.operators.agents.registry import AgentAdmin
from apps.operators.agents.versions import AgentVersionAdmin

__all__ = ["AgentAdmin", "AgentVersionAdmin", "SigningKeyAdmin"]
