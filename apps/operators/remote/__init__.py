"""Operators' pages of remote agents."""

from apps.operators.remote.credentials import RemoteCredentialAdmin
from apps.operators.remote.health import CheckAdmin, CheckupAdmin
from apps.operators.remote.remote_agents import RemoteAgentAdmin

__all__ = ["CheckAdmin", "CheckupAdmin", "RemoteAgentAdmin", "RemoteCredentialAdmin"]
