"""What is known of remote agents besides what the registry says of every agent."""

from apps.gateway.models.breakers import Breaker
from apps.gateway.models.checks import Check, CheckedHour, Checkup

__all__ = ["Breaker", "Check", "CheckedHour", "Checkup"]
