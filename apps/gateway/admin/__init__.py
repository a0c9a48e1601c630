"""Operators' pages of remote agents."""

from apps.gateway.admin.credentials import RemoteCredentialAdmin
from apps.gateway.admin.remote_agents import RemoteAgentAdmin

__all__ = ["RemoteAgentAdmin", "RemoteCredentialAdmin"]
