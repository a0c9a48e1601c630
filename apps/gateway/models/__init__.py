"""What is known of remote agents besides what the registry says of every agent, and the work that they do for us."""

from apps.gateway.models.breakers import Breaker
from apps.gateway.models.checks import Check, CheckedHour, Checkup
from apps.gateway.models.credentials import RemoteCredential, RemoteCredentialQuerySet
from apps.gateway.models.open_work import OpenWork
from apps.gateway.models.remote_agents import Label, RemoteAgent, RemoteAgentQuerySet

__all__ = [
    "Breaker",
    "Check",
    "CheckedHour",
    "Checkup",
    "Label",
    "OpenWork",
    "RemoteAgent",
    "RemoteAgentQuerySet",
    "RemoteCredential",
    "RemoteCredentialQuerySet",
]
