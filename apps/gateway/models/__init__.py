"""What is known of remote agents besides what the registry says of every agent."""

from apps.gateway.models.remote_agents import Label, RemoteAgent, RemoteAgentQuerySet

__all__ = ["Label", "RemoteAgent", "RemoteAgentQuerySet"]
