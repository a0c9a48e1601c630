"""Operators' pages of remote agents."""

from apps.gateway.admin.remote_agents import RemoteAgentAdmin

__all__ = ["RemoteAgentAdmin"]
