"""An agent's card (A2A 1.0 §4.4), with absolute URLs from `PUBLIC_BASE_URL`."""

from typing import Any

from django.conf import settings

from apps.accounts.principals import SCOPES
from apps.agents.models import Agent

PROTOCOL_VERSION = "1.0"


def endpoint(agent: Agent) -> str:
    """The agent's JSON-RPC URL."""
    return f"{settings.PUBLIC_BASE_URL}/a2a/{agent.slug}"


def card(agent: Agent) -> dict[str, Any]:
    """The agent's public card as an A2A 1.0 `AgentCard` in its JSON form."""
    shown = {
        "name": agent.name,
        "description": agent.description,
        "version": agent.version,
        "supportedInterfaces": [
            {
                "url": endpoint(agent),
                "protocolBinding": "JSONRPC",
                "protocolVersion": PROTOCOL_VERSION,
                "tenant": agent.slug,
            }
        ],
        "provider": {"organization": "Parley", "url": settings.PUBLIC_BASE_URL},
        "capabilities": capabilities(agent),
        "defaultInputModes": agent.input_modes,
        "defaultOutputModes": agent.output_modes,
        "skills": agent.skills or [general_skill(agent)],
    }
    if agent.access != Agent.Access.PUBLIC or agent.has_extended_card:
        shown["securitySchemes"] = {
            "apiKey": {
                "httpAuthSecurityScheme": {
                    "scheme": "Bearer",
                    "description": "An API key of this platform: Authorization: Bearer <key>.",
                }
            }
        }
    if agent.access != Agent.Access.PUBLIC:
        shown["securityRequirements"] = [{"schemes": {"apiKey": {"list": list(SCOPES)}}}]
    return shown


def extended_card(agent: Agent) -> dict[str, Any]:
    """The card for callers with credentials: the public one with what the agent's `extended_card` says beyond it."""
    shown, beyond = card(agent), agent.extended_card
    skills = {skill["id"]: skill for skill in [*shown["skills"], *beyond.get("skills", [])]}
    return {**shown, **beyond, "skills": list(skills.values())}


def capabilities(agent: Agent) -> dict[str, Any]:
    """What the endpoint does for this agent."""
    able = {"streaming": agent.streams, "pushNotifications": False, "extendedAgentCard": agent.has_extended_card}
    return able | ({"extensions": declared} if (declared := extensions(agent)) else {})


def extensions(agent: Agent) -> list[dict[str, Any]]:
    """The A2A extensions that the agent declares: `{"uri", "description"?, "required"?}`."""
    declared = list(agent.capabilities.get("extensions", []))
    if agent.sign_artifacts:
        declared.append({"uri": signature_extension(), "description": "Artifacts of completed tasks are signed."})
    return declared


def signature_extension() -> str:
    """The URI of the extension by which artifacts carry signatures (`docs/signed-artifacts.md`)."""
    return f"{settings.PUBLIC_BASE_URL}/ext/signature/v1"


def general_skill(agent: Agent) -> dict[str, Any]:
    """The skill of an agent that names none: a card must have one."""
    return {"id": agent.slug, "name": agent.name, "description": agent.description, "tags": ["general"]}
