"""An agent's card (A2A 1.0 §4.4), with absolute URLs from `PUBLIC_BASE_URL`."""

from typing import Any

from django.conf import settings

from apps.accounts.principals import SCOPES
from apps.agents.models import Agent

PROTOCOL_VERSION = "1.0"
OLD_VERSION = "0.3"
BINDINGS = ("JSONRPC", "HTTP+JSON")  # of which clients take the first that they know

HEALTH = {
    Agent.Health.OK: "",
    Agent.Health.DEGRADED: "It works, but not as well as it should at the moment.",
    Agent.Health.UNAVAILABLE: "It cannot work at the moment. The operators can see why.",
}
"""What everybody is told of an agent that is not well."""

SECURITY_SCHEMES = {
    "apiKey": {
        "httpAuthSecurityScheme": {
            "scheme": "Bearer",
            "description": "An API key of this platform: Authorization: Bearer <key>.",
        }
    }
}
SECURITY_REQUIREMENTS: list[dict[str, Any]] = [{"schemes": {"apiKey": {"list": list(SCOPES)}}}]


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
    if not agent.is_public or agent.has_extended_card:
        shown["securitySchemes"] = SECURITY_SCHEMES
    if not agent.is_public:
        shown["securityRequirements"] = SECURITY_REQUIREMENTS
    return shown


def extended_card(agent: Agent) -> dict[str, Any]:
    """The card for callers with credentials: the public one with what the agent's `extended_card` says beyond it."""
    shown, beyond = card(agent), agent.extended_card
    skills = {skill["id"]: skill for skill in [*shown["skills"], *beyond.get("skills", [])]}
    return {**shown, **beyond, "skills": list(skills.values())}


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
    able = {
        "streaming": agent.streams,
        "pushNotifications": agent.calls_webhooks,
        "extendedAgentCard": agent.has_extended_card,
    }
    return able | ({"extensions": declared} if (declared := extensions(agent)) else {})


def extensions(agent: Agent) -> list[dict[str, Any]]:
    """The A2A extensions that the agent declares (`{"uri", "description"?, "required"?}`): the platform's, its own."""
    declared = [*platform_extensions(agent), *agent.capabilities.get("extensions", [])]
    if agent.sign_artifacts:
        declared.append({"uri": signature_extension(), "description": "Artifacts of completed tasks are signed."})
    return [*declared, health_of(agent)]


def platform_extensions(agent: Agent) -> list[dict[str, Any]]:
    """What every endpoint here understands; each is described at its URI (docs/extensions)."""
    described = {
        "conversations": "Feedback on tasks; listing and clearing conversations.",
        "message-ids": "A message that a known caller sends twice is taken once.",
        "negotiation": "Asking whether the agent would take a piece of work, and how well it fits.",
    }
    if agent.streams:
        described["cursor"] = "Streams that can be taken up again after the last event that was seen."
    return [{"uri": extension(name), "description": description} for name, description in described.items()]


def health_of(agent: Agent) -> dict[str, Any]:
    """The extension that says whether the agent can work (`docs/extensions/health-v1.md`), without internals."""
    params = {"status": agent.health} | ({"reason": reason} if (reason := HEALTH[Agent.Health(agent.health)]) else {})
    return {"uri": extension("health"), "description": "Whether the agent can work.", "params": params}


def signature_extension() -> str:
    """The URI of the extension by which artifacts carry signatures (`docs/extensions/signature-v1.md`)."""
    return extension("signature")


def extension(name: str) -> str:
    """The URI of an extension of the platform's, where its page is."""
    return f"{settings.PUBLIC_BASE_URL}/ext/{name}/v1"


def skills(agent: Agent) -> list[dict[str, Any]]:
    """The agent's skills; of one that names none a general one, for a card must have one."""
    general = {"id": agent.slug, "name": agent.name, "description": agent.description, "tags": ["general"]}
    return agent.skills or [general]
