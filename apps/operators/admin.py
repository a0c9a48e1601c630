"""What Django's admin finds: the pages of each app."""

from apps.operators import (
    accounts,
    agents,
    credentials,
    plans,
    record,
    remote_agents,
    remote_health,
    tasks,
    webhooks,
)

__all__ = [
    "accounts",
    "agents",
    "credentials",
    "plans",
    "record",
    "remote_agents",
    "remote_health",
    "tasks",
    "webhooks",
]
