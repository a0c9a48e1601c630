"""Operators' pages of remote agents."""

from apps.gateway.admin.credentials import RemoteCredentialAdmin
from apps.gateway.admin.health import CheckAdmin, CheckupAdmin
from apps.gateway.admin.remote_agents import RemoteAgentAdmin

__all__ = ["CheckAdmin", "CheckupAdmin", "RemoteAgentAdmin", "RemoteCredentialAdmin"]
