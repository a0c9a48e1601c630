"""What is known of remote agents besides what the registry says of every agent."""

from apps.gateway.models.credentials import RemoteCredential, RemoteCredentialQuerySet

__all__ = ["RemoteCredential", "RemoteCredentialQuerySet"]
