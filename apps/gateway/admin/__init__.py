"""Operators' pages of remote agents."""

from apps.gateway.admin.credentials import RemoteCredentialAdmin

__all__ = ["RemoteCredentialAdmin"]
