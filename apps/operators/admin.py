"""The module that Django admin loads."""

from apps.operators import actions  # noqa: F401
from apps.operators.access import accounts, credentials, holds, limits, oauth_services, programs  # noqa: F401
from apps.operators.installation import (  # noqa: F401
    audit,
    budgets,
    connections,
    housekeeping,
    network,
    operation,
    payments,
    tool_servers,
)
from apps.operators.registry import agent_versions, agents, evaluations, peers, remote_agents, remote_health  # noqa: F401
from apps.operators.work import exports, incoming_webhooks, notifications, plans, record, schedules, tasks, webhooks  # noqa: F401
