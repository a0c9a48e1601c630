"""The A2A server's URLs. They work with and without a trailing slash, and never redirect."""

import re

from django.urls import URLPattern, path, re_path

from apps.a2a import discovery, http
from apps.a2a.bindings import REST_ADDRESSES, jsonrpc, rest
from apps.a2a.discovery import agent_card, platform_card
from apps.a2a.extensions import extension_page, negotiation

app_name = "a2a"


def addresses(prefix: str, version: str = http.V1_0) -> list[URLPattern]:
    """The addresses of HTTP+JSON below a prefix (a regular expression)."""
    return [
        re_path(f"^{prefix}{_pattern(address)}/?\\Z", rest, {"operations": operations, "version": version})
        for address, operations in REST_ADDRESSES[version].items()
    ]


def _pattern(address: str) -> str:
    return re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", address)


urlpatterns = [
    path(".well-known/jwks.json", discovery.key_set, name="keys"),
    path(".well-known/did.json", discovery.platform_identity, name="platform-identity"),
    path("a2a", jsonrpc),
    path("a2a/", jsonrpc),
    path(".well-known/agent-card.json", platform_card, name="platform-card"),
    path(".well-known/agent.json", platform_card, {"is_old": True}),
    re_path(r"^a2a/\.well-known/agent(?:-card)?\.json\Z", discovery.misplaced_card),
    path("a2a/negotiation", negotiation, name="negotiation"),
    path("a2a/negotiation/", negotiation),
    *addresses("a2a/", http.V0_3),  # `v1` is neither agent nor tenant
    *addresses("a2a/"),
    path("a2a/<str:slug>", jsonrpc, name="jsonrpc"),
    path("a2a/<str:slug>/", jsonrpc),
    path("a2a/<str:slug>/.well-known/agent-card.json", agent_card, name="card"),
    path("a2a/<str:slug>/negotiation", negotiation),
    path("a2a/<str:slug>/negotiation/", negotiation),
    path("ext/<slug:name>/v<int:version>", extension_page, name="extension"),
    path("a2a/<str:slug>/.well-known/agent.json", agent_card, {"is_old": True}),
    path("a2a/<str:slug>/did.json", discovery.agent_identity, name="identity"),
    *addresses("a2a/(?P<slug>[^/]+)/", http.V0_3),
    *addresses("a2a/(?P<slug>[^/]+)/"),
    *addresses("a2a/(?P<slug>[^/]+)/(?!v1/)(?P<tenant>[^/]+)/"),
]
