"""Agent cards (A2A 1.0 §4.4): one for each agent, and the platform's. URLs are absolute (`PUBLIC_BASE_URL`)."""

import json
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from django.conf import settings

from apps.accounts.clients.oauth import AGENT_SCOPE
from apps.accounts.principals import TASK_SCOPES
from apps.agents.models import Agent
from apps.installation.models import Activity

PROTOCOL_VERSION = "1.0"
OLD_VERSION = "0.3"
BINDINGS = ("JSONRPC", "HTTP+JSON")  # clients take the first that they know

HEALTH_REASONS = {
    Agent.Health.OK: "",
    Agent.Health.DEGRADED: "The agent works, but many of its tasks fail at the moment.",
    Agent.Health.UNAVAILABLE: "The agent cannot work at the moment. Operators can see why.",
}
"""What everybody sees of an agent that is not healthy."""

ACTIVITY_REASONS = {
    Activity.PAUSED: "The agent is paused. It accepts messages, and works on them when it is resumed.",
    Activity.DRAINING: "The agent accepts no new tasks at the moment.",
}


def public_health(agent: Agent) -> tuple[str, str]:
    """The status and the reason that everybody sees. An agent that is paused or drained is unavailable."""
    if reason := ACTIVITY_REASONS.get(agent.current_activity):
        return str(Agent.Health.UNAVAILABLE), reason
    return agent.health, HEALTH_REASONS[Agent.Health(agent.health)]


API_KEY_SCHEME = {
    "httpAuthSecurityScheme": {
        "scheme": "Bearer",
        "description": "An API key of this platform: Authorization: Bearer <key>. "
        "One with a public key is accepted only in signed requests (RFC 9421).",
    }
}


def security_schemes(agent: Agent | None = None) -> dict[str, Any]:
    """The ways to authenticate: an API key or, if it is enabled, a token from a flow of OAuth.

    An agent has a scope of its own, which limits a token to it.
    """
    schemes: dict[str, Any] = {"apiKey": API_KEY_SCHEME}
    if not settings.OAUTH_ENABLED:
        return schemes
    base = settings.PUBLIC_BASE_URL
    told: dict[str, Any] = {
        "scopes": TASK_SCOPES | ({f"{AGENT_SCOPE}{agent.slug}": "use this agent alone"} if agent else {})
    }
    told |= {"tokenUrl": f"{base}/oauth/token"}
    person = {"authorizationUrl": f"{base}/oauth/authorize", "pkceRequired": True, **told}
    flows = {
        "oauthCode": {"authorizationCode": {"refreshUrl": told["tokenUrl"], **person}},
        "oauthDevice": {"deviceCode": {"deviceAuthorizationUrl": f"{base}/oauth/device/code", **told}},
        "oauthClient": {"clientCredentials": told},
    }
    metadata = f"{base}/.well-known/oauth-authorization-server"
    scheme = {name: {"flows": flow, "oauth2MetadataUrl": metadata} for name, flow in flows.items()}
    return schemes | {name: {"oauth2SecurityScheme": one} for name, one in scheme.items()}


def security_requirements() -> list[dict[str, Any]]:
    """Any one of the schemes, with the scopes that a caller needs for all operations."""
    return [{"schemes": {name: {"list": list(TASK_SCOPES)}}} for name in security_schemes()]


def agent_url(agent: Agent) -> str:
    """The agent's JSON-RPC URL, below which HTTP+JSON has its addresses."""
    return f"{settings.PUBLIC_BASE_URL}/a2a/{agent.slug}"


def agent_card(agent: Agent) -> dict[str, Any]:
    """The public card: an A2A 1.0 `AgentCard` in JSON."""
    shown = {
        "name": agent.name,
        "description": agent.description,
        "version": agent.version,
        "supportedInterfaces": interfaces_at(agent_url(agent), agent.slug) + interfaces_0_3_at(agent_url(agent)),
        "provider": provider(),
        "capabilities": card_capabilities(agent),
        "defaultInputModes": agent.input_modes,
        "defaultOutputModes": agent.output_modes,
        "skills": card_skills(agent),
    }
    if not agent.is_public or agent.has_extended_card:
        shown["securitySchemes"] = security_schemes(agent)
    if not agent.is_public:
        shown["securityRequirements"] = security_requirements()
    return shown


def extended_card(agent: Agent) -> dict[str, Any]:
    """The card for known callers: the public one extended by `extended_card`."""
    shown, beyond = agent_card(agent), agent.extended_card
    skills = {skill["id"]: skill for skill in [*shown["skills"], *beyond.get("skills", [])]}
    return {**shown, **beyond, "skills": list(skills.values())}


def interfaces_at(url: str, tenant: str) -> list[dict[str, str]]:
    """The interfaces at a URL, one for each binding; "" means no tenant."""
    named = {"tenant": tenant} if tenant else {}
    return [
        {"url": url, "protocolBinding": binding, "protocolVersion": PROTOCOL_VERSION, **named} for binding in BINDINGS
    ]


def interfaces_0_3_at(url: str) -> list[dict[str, str]]:
    """For clients of 0.3, which has no tenants."""
    return [{"url": url, "protocolBinding": binding, "protocolVersion": OLD_VERSION} for binding in BINDINGS]


def provider() -> dict[str, str]:
    """This installation."""
    return {"organization": "Parley", "url": settings.PUBLIC_BASE_URL}


def card_capabilities(agent: Agent) -> dict[str, Any]:
    able = {
        "streaming": agent.streams,
        "pushNotifications": agent.calls_webhooks,
        "extendedAgentCard": agent.has_extended_card,
    }
    return able | ({"extensions": declared} if (declared := card_extensions(agent)) else {})


def card_extensions(agent: Agent) -> list[dict[str, Any]]:
    """The extensions that the agent declares (`{"uri", "description"?, "required"?}`): the platform's and its own."""
    declared = [*platform_extensions(agent), *agent.capabilities.get("extensions", [])]
    if settings.PAYMENTS_FACILITATOR:
        declared += [{"uri": uri, "description": "Takes payments by x402, where it asks for one."} for uri in X402_URIS]
    if agent.sign_artifacts:
        declared.append({"uri": signature_extension_uri(), "description": "Artifacts of completed tasks are signed."})
    if agent.usual_seconds:
        declared.append(duration_extension(agent.usual_seconds))
    if agent.is_steerable:
        declared.append(steering_extension())
    return [*declared, health_extension(agent)]


def platform_extensions(agent: Agent) -> list[dict[str, Any]]:
    """Extensions of every endpoint, described at their URIs (docs/extensions)."""
    described = {
        "conversations": "Feedback on tasks, and lists of conversations that can be cleared.",
        "depends-on": "A task can start when others are completed, and fail when one of them fails.",
        "message-ids": "A message that a known caller sends twice counts once.",
        "negotiation": "Asks whether the agent would accept a piece of work, and how well it fits.",
    }
    if agent.streams:
        described["cursor"] = "Streams that can be resumed after the last event."
    return [{"uri": extension_uri(name), "description": description} for name, description in described.items()]


X402_URIS = (
    "https://github.com/google-a2a/a2a-x402/v0.1",
    "https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2",
)
"""The x402 extension, whose versions agree in what is used here (`docs/extensions/x402-v1.md`)."""


def health_extension(agent: Agent) -> dict[str, Any]:
    """The extension that says whether the agent can work (`docs/extensions/health-v1.md`)."""
    status, reason = public_health(agent)
    params = {"status": status} | ({"reason": reason} if reason else {})
    return {"uri": extension_uri("health"), "description": "Whether the agent can work.", "params": params}


def duration_extension(seconds: float) -> dict[str, Any]:
    """The extension that says how long a turn usually takes (`docs/extensions/duration-v1.md`)."""
    described = "How long a turn usually takes, in seconds."
    return {"uri": extension_uri("duration"), "description": described, "params": {"usualSeconds": seconds}}


def steering_extension() -> dict[str, Any]:
    """The extension for messages to a task at work (`docs/extensions/steering-v1.md`)."""
    described = "A task at work reads messages that come meanwhile, and can stop after a step."
    return {"uri": extension_uri("steering"), "description": described, "params": {"unread": "nextTurn"}}


def signature_extension_uri() -> str:
    """Of the extension for signatures of artifacts (`docs/extensions/signature-v1.md`)."""
    return extension_uri("signature")


def extension_uri(name: str) -> str:
    """The URI of a platform extension, and of its page."""
    return f"{settings.PUBLIC_BASE_URL}/ext/{name}/v1"


def card_skills(agent: Agent) -> list[dict[str, Any]]:
    """The agent's skills, or a general one, because a card must have one."""
    general = {"id": agent.slug, "name": agent.name, "description": agent.description, "tags": ["general"]}
    return agent.skills or [general]


def spoken_examples(skill: dict[str, Any]) -> list[str]:
    """The examples of a skill that a person would say: those that are no JSON."""
    return [example for example in skill.get("examples", []) if not _is_json(example)]


def _is_json(text: str) -> bool:
    """Whether it is a JSON object or array."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    with suppress(ValueError, RecursionError):
        json.loads(text)
        return True
    return False


def platform_url() -> str:
    """The front door's URL."""
    return f"{settings.PUBLIC_BASE_URL}/a2a"


def platform_card(agents: Sequence[Agent]) -> dict[str, Any]:
    """A card for one or more agents: an A2A 1.0 `AgentCard` in JSON.

    It promises what all of them do. What only some require, such as credentials, is listed with their skills.
    """
    shown = {
        "name": "Parley",
        "description": f"A platform of {len(agents)} agents. The tenant of an interface names the agent behind it.",
        "version": version("parley-platform"),
        "supportedInterfaces": _platform_interfaces(agents),
        "provider": provider(),
        "capabilities": _common_capabilities(agents),
        "defaultInputModes": sorted({mode for agent in agents for mode in agent.input_modes}),
        "defaultOutputModes": sorted({mode for agent in agents for mode in agent.output_modes}),
        "skills": [skill for agent in agents for skill in _qualified_skills(agent)],
    }
    closed = [not agent.is_public for agent in agents]
    if any(closed) or any(agent.has_extended_card for agent in agents):
        shown["securitySchemes"] = security_schemes()
    if all(closed):
        shown["securityRequirements"] = security_requirements()
    return shown


def _platform_interfaces(agents: Sequence[Agent]) -> list[dict[str, str]]:
    """One for each tenant. If messages without one have an agent, those are first, and old ones last."""
    has_default = any(agent.slug in (settings.DEFAULT_AGENT, settings.ROUTER_AGENT) for agent in agents)
    tenants = [""] * has_default + [agent.slug for agent in agents]
    current = [interface for tenant in tenants for interface in interfaces_at(platform_url(), tenant)]
    return current + (interfaces_0_3_at(platform_url()) if has_default else [])


def _common_capabilities(agents: Sequence[Agent]) -> dict[str, Any]:
    first, *others = [card_capabilities(agent) for agent in agents]
    able = {name: all(each[name] for each in (first, *others)) for name in first if name != "extensions"}
    extensions = [
        one for one in first.get("extensions", []) if all(one in each.get("extensions", []) for each in others)
    ]
    return able | ({"extensions": extensions} if extensions else {})


def _qualified_skills(agent: Agent) -> list[dict[str, Any]]:
    """The agent's skills, with unique ids, and what applies only to them."""
    own: dict[str, Any] = {"inputModes": agent.input_modes, "outputModes": agent.output_modes}
    if not agent.is_public:
        own["securityRequirements"] = security_requirements()
    return [own | skill | {"id": f"{agent.slug}/{skill['id']}"} for skill in card_skills(agent)]
