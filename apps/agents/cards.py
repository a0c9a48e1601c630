"""An agent's card (A2A 1.0 §4.4), with absolute URLs from `PUBLIC_BASE_URL`."""

import hashlib
import json
from typing import Any

from django.conf import settings

from apps.agents.models import Agent

PROTOCOL_VERSION = "1.0"
OLD_VERSION = "0.3"
BINDINGS = ("JSONRPC", "HTTP+JSON")  # of which clients take the first that they know

SECURITY_SCHEMES = {
    "apiKey": {
        "httpAuthSecurityScheme": {
            "scheme": "Bearer",
            "description": "An API key of this platform: Authorization: Bearer <key>.",
        }
    }
}
SECURITY_REQUIREMENTS: list[dict[str, Any]] = [{"schemes": {"apiKey": {"list": []}}}]


def endpoint(agent: Agent) -> str:
    """The agent's URL: that of JSON-RPC, and the one below which HTTP+JSON has its addresses."""
    return f"{settings.PUBLIC_BASE_URL}/a2a/{agent.slug}"


def card(agent: Agent) -> dict[str, Any]:
    """The agent's public card as an A2A 1.0 `AgentCard` in its JSON form."""
    shown = {
        "name": agent.name,
        "description": agent.description,
        "version": agent.version,
        "supportedInterfaces": interfaces(endpoint(agent), agent.slug) + old_interfaces(endpoint(agent)),
        "provider": provider(),
        "capabilities": capabilities(agent),
        "defaultInputModes": agent.input_modes,
        "defaultOutputModes": agent.output_modes,
        "skills": skills(agent),
    }
    if not agent.is_public:
        shown |= {"securitySchemes": SECURITY_SCHEMES, "securityRequirements": SECURITY_REQUIREMENTS}
    return shown


def interfaces(url: str, tenant: str) -> list[dict[str, str]]:
    """How an agent can be talked to at a URL, by every binding; without a tenant none needs to be named."""
    named = {"tenant": tenant} if tenant else {}
    return [
        {"url": url, "protocolBinding": binding, "protocolVersion": PROTOCOL_VERSION, **named} for binding in BINDINGS
    ]


def old_interfaces(url: str) -> list[dict[str, str]]:
    """The same for clients of 0.3, which know no tenants."""
    return [{"url": url, "protocolBinding": binding, "protocolVersion": OLD_VERSION} for binding in BINDINGS]


def provider() -> dict[str, str]:
    """Who runs the agents: this installation."""
    return {"organization": "Parley", "url": settings.PUBLIC_BASE_URL}


def capabilities(agent: Agent) -> dict[str, Any]:
    """What the endpoint does for this agent."""
    able = {"streaming": agent.streams, "pushNotifications": agent.calls_webhooks, "extendedAgentCard": False}
    return able | ({"extensions": declared} if (declared := extensions(agent)) else {})


def extensions(agent: Agent) -> list[dict[str, Any]]:
    """The A2A extensions that the agent declares: `{"uri", "description"?, "required"?}`."""
    return list(agent.capabilities.get("extensions", []))


def skills(agent: Agent) -> list[dict[str, Any]]:
    """The agent's skills; of one that names none a general one, for a card must have one."""
    general = {"id": agent.slug, "name": agent.name, "description": agent.description, "tags": ["general"]}
    return agent.skills or [general]


def etag(shown: dict[str, Any]) -> str:
    """A strong validator for a card, quoted as HTTP wants it."""
    digest = hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()
    return f'"{digest[:32]}"'
