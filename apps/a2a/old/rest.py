"""A2A 0.3 over HTTP+JSON (0.3 §3.2.3): its addresses are below `/v1/`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from apps.a2a import versions
from apps.a2a.old.forms import HTTP_JSON
from apps.a2a.old.methods import carry_out_old
from apps.a2a.rest import Version, answered

OLD = Version(versions.OLD, partial(carry_out_old, form=HTTP_JSON))

OLD_ADDRESSES: dict[str, dict[str, str]] = {
    "v1/message:send": {"POST": "message/send"},
    "v1/message:stream": {"POST": "message/stream"},
    "v1/tasks/{id}:cancel": {"POST": "tasks/cancel"},
    "v1/tasks/{id}:subscribe": {"GET": "tasks/resubscribe", "POST": "tasks/resubscribe"},
    "v1/tasks/{id}": {"GET": "tasks/get"},
    "v1/tasks/{id}/pushNotificationConfigs": {
        "GET": "tasks/pushNotificationConfig/list",
        "POST": "tasks/pushNotificationConfig/set",
    },
    "v1/tasks/{id}/pushNotificationConfigs/{pushNotificationConfigId}": {
        "GET": "tasks/pushNotificationConfig/get",
        "DELETE": "tasks/pushNotificationConfig/delete",
    },
    "v1/card": {"GET": "agent/getAuthenticatedExtendedCard"},
}
"""The method of each HTTP method at each address below an agent's, or below the front door's."""


@csrf_exempt
async def old_resource(
    request: HttpRequest, operations: Mapping[str, str], slug: str = "", **named: str
) -> HttpResponseBase:
    """One of the OLD_ADDRESSES, of the agent `slug` or at the front door."""
    return await answered(request, operations, slug, named, OLD)
