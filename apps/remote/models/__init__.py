"""What is known of remote agents besides what the registry says of every agent, and the work that they do for us."""

from apps.remote.models.breakers import Breaker
from apps.remote.models.checks import Check, CheckedHour, Checkup
from apps.remote.models.credentials import RemoteCredential, RemoteCredentialQuerySet
from apps.remote.models.open_work import OpenWork
from apps.remote.models.remote_agents import Label, RemoteAgent, RemoteAgentQuerySet

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
