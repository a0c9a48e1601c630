"""What a refused caller is told in `WWW-Authenticate` (RFC 6750 §3, RFC 9728 §5.1)."""

from __future__ import annotations

import re
from contextvars import ContextVar

from django.conf import settings

from apps.accounts.principals import TASK_SCOPES

REALM = "parley"
METADATA_PATH = "/.well-known/oauth-protected-resource"

resource: ContextVar[str] = ContextVar("resource", default="")
"""The path of the protected resource that the request is for, such as `/a2a/echo`; "" is the whole platform, and so is
a path that no header can hold."""


def challenge(error: str = "", scope: str = "") -> str:
    """The header. `error` is "" where no credentials were sent; `scope` is what would be enough."""
    said = {"realm": REALM, "error": error, "scope": scope or " ".join(TASK_SCOPES)}
    if settings.OAUTH_ENABLED:
        path = resource.get() if re.fullmatch(r"[\w/.-]*", resource.get(), re.ASCII) else ""
        said["resource_metadata"] = f"{settings.PUBLIC_BASE_URL}{METADATA_PATH}{path}"
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in said.items() if value)
