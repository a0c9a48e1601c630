"""A2A extensions of a request (A2A 1.0 §3.2.6): those that it asks for and the agent's card declares are activated."""

from __future__ import annotations

from django.http import HttpRequest

from apps.a2a.errors import ExtensionSupportRequired
from apps.agents import cards
from apps.agents.models import Agent

HEADER = "A2A-Extensions"
OLD_HEADER = "X-A2A-Extensions"


def negotiate(agent: Agent, request: HttpRequest) -> list[str]:
    """The URIs that are activated; unknown ones are ignored. Raises ExtensionSupportRequired."""
    declared = cards.extensions(agent)
    if not declared:
        return []
    named = requested(request)
    for extension in declared:
        if extension.get("required") and extension["uri"] not in named:
            raise ExtensionSupportRequired(f"The agent requires {extension['uri']}. Name it in the {HEADER} header.")
    return [extension["uri"] for extension in declared if extension["uri"] in named]


def requested(request: HttpRequest) -> set[str]:
    """The URIs of the extensions that a request names."""
    named = ",".join(request.headers.get(header, "") for header in (HEADER, OLD_HEADER))
    return {uri.strip() for uri in named.split(",")}
