"""The module that Django admin loads."""

from apps.operators import (  # noqa: F401
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
from apps.operators.installation import connections, network  # noqa: F401
