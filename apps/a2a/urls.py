"""The A2A server's URLs. They answer as they are, with and without a trailing slash, and never with a redirect."""

import re
from collections.abc import Callable
from typing import Any

from django.urls import URLPattern, path, re_path

from apps.a2a import identities
from apps.a2a.discovery import agent_card, platform_card
from apps.a2a.extension_pages import extension_page
from apps.a2a.jsonrpc import endpoint
from apps.a2a.negotiating import negotiation
from apps.a2a.old.rest import OLD_ADDRESSES, old_resource
from apps.a2a.rest import ADDRESSES, resource

app_name = "a2a"


def addresses(prefix: str) -> list[URLPattern]:
    """The addresses of the HTTP+JSON binding below a prefix, which is a regular expression."""
    return [_at(prefix, path, resource, operations) for path, operations in ADDRESSES.items()]


def old_addresses(prefix: str) -> list[URLPattern]:
    """Those of 0.3. `v1` is no agent and no tenant."""
    return [_at(prefix, path, old_resource, methods) for path, methods in OLD_ADDRESSES.items()]


def _at(prefix: str, address: str, view: Callable[..., Any], operations: dict[str, str]) -> URLPattern:
    return re_path(f"^{prefix}{_pattern(address)}/?\\Z", view, {"operations": operations})


def _pattern(address: str) -> str:
    return re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", address)


urlpatterns = [
    path(".well-known/jwks.json", identities.keys, name="keys"),
    path(".well-known/did.json", identities.platform, name="platform-identity"),
    path("a2a", endpoint),
    path("a2a/", endpoint),
    path(".well-known/agent-card.json", platform_card, name="platform-card"),
    path("a2a/.well-known/agent-card.json", platform_card),
    path(".well-known/agent.json", platform_card, {"is_old": True}),
    path("a2a/.well-known/agent.json", platform_card, {"is_old": True}),
    path("a2a/negotiation", negotiation, name="negotiation"),
    path("a2a/negotiation/", negotiation),
    *old_addresses("a2a/"),
    *addresses("a2a/"),
    path("a2a/<str:slug>", endpoint, name="jsonrpc"),
    path("a2a/<str:slug>/", endpoint),
    path("a2a/<str:slug>/.well-known/agent-card.json", agent_card, name="card"),
    path("a2a/<str:slug>/negotiation", negotiation),
    path("a2a/<str:slug>/negotiation/", negotiation),
    path("ext/<slug:name>/v<int:version>", extension_page, name="extension"),
    path("a2a/<str:slug>/.well-known/agent.json", agent_card, {"is_old": True}),
    path("a2a/<str:slug>/did.json", identities.agent, name="identity"),
    *old_addresses("a2a/(?P<slug>[^/]+)/"),
    *addresses("a2a/(?P<slug>[^/]+)/"),
    *addresses("a2a/(?P<slug>[^/]+)/(?!v1/)(?P<tenant>[^/]+)/"),
]
