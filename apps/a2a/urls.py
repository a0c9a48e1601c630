"""The A2A server's URLs. They answer as they are, with and without a trailing slash, and never with a redirect."""

import re

from django.urls import URLPattern, path, re_path

from apps.a2a.discovery import agent_card, platform_card
from apps.a2a.extension_pages import extension_page
from apps.a2a.jsonrpc import endpoint
from apps.a2a.rest import ADDRESSES, resource

app_name = "a2a"


def addresses(prefix: str) -> list[URLPattern]:
    """The addresses of the HTTP+JSON binding below a prefix, which is a regular expression."""
    return [re_path(f"^{prefix}{_pattern(path)}/?\\Z", resource, {"operations": ADDRESSES[path]}) for path in ADDRESSES]


def _pattern(address: str) -> str:
    return re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", address)


urlpatterns = [
    path("a2a", endpoint),
    path("a2a/", endpoint),
    path(".well-known/agent-card.json", platform_card, name="platform-card"),
    path("a2a/.well-known/agent-card.json", platform_card),
    *addresses("a2a/"),
    path("a2a/<str:slug>", endpoint, name="jsonrpc"),
    path("a2a/<str:slug>/", endpoint),
    path("a2a/<str:slug>/.well-known/agent-card.json", agent_card, name="card"),
    path("ext/<slug:name>/v<int:version>", extension_page, name="extension"),
    *addresses("a2a/(?P<slug>[^/]+)/"),
    *addresses("a2a/(?P<slug>[^/]+)/(?P<tenant>[^/]+)/"),
]
