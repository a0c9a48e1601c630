"""What Django's admin finds: the pages of each app below."""

# isort: off  (a later module registers more for a model than an earlier one)
from apps.operators import accounts, agents, engine, plans, record, remote, webhooks

__all__ = ["accounts", "agents", "engine", "plans", "record", "remote", "webhooks"]
