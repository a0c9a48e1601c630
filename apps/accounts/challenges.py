"""What a refused caller is told in `WWW-Authenticate` (RFC 6750 §3, RFC 9728 §5.1)."""

from __future__ import annotations

import re
from contextvars import ContextVar

from django.conf import settings

from apps.accounts.principals import TASK_SCOPES

REALM = "parley"
METADATA_PATH = "/.well-known/oauth-protected-resource"

resource: ContextVar[str] = ContextVar("resource", default="")
"""The path of the protected resource that the request is for, such as `/a2a/echo`; "" is the whole platform."""


def asks_for(path: str) -> None:
    """The request is for the resource at this path. A path that no header can hold is for the whole platform."""
    resource.set(path if re.fullmatch(r"[\w/.-]*", path, re.ASCII) else "")


def challenge(error: str = "", scope: str = "") -> str:
    """The header. `error` is "" where no credentials were sent; `scope` is what would be enough."""
    said = {"realm": REALM, "error": error, "scope": scope or " ".join(TASK_SCOPES)}
    if settings.OAUTH_ENABLED:
        said["resource_metadata"] = f"{settings.PUBLIC_BASE_URL}{METADATA_PATH}{resource.get()}"
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in said.items() if value)
