"""The A2A server's URLs. They answer as they are, with and without a trailing slash, and never with a redirect."""

from django.urls import path

from apps.a2a import identities
from apps.a2a.discovery import agent_card
from apps.a2a.jsonrpc import endpoint

app_name = "a2a"
urlpatterns = [
    path(".well-known/jwks.json", identities.keys, name="keys"),
    path(".well-known/did.json", identities.platform, name="platform-identity"),
    path("a2a/<str:slug>", endpoint, name="jsonrpc"),
    path("a2a/<str:slug>/", endpoint),
    path("a2a/<str:slug>/.well-known/agent-card.json", agent_card, name="card"),
    path("a2a/<str:slug>/did.json", identities.agent, name="identity"),
]
