"""Operators' pages of remote agents."""

from apps.gateway.admin.health import CheckAdmin, CheckupAdmin

__all__ = ["CheckAdmin", "CheckupAdmin"]
