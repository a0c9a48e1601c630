"""The platform's own card: the agents that everybody may see, behind the front door (A2A 1.0 §4.4, §8)."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from django.conf import settings

from apps.agents import cards
from apps.agents.models import Agent


def endpoint() -> str:
    """The front door's URL: `tenant` says which agent is meant."""
    return f"{settings.PUBLIC_BASE_URL}/a2a"


def card(agents: Sequence[Agent]) -> dict[str, Any]:
    """A card for these agents, one at least, as an A2A 1.0 `AgentCard` in its JSON form.

    It promises what each of them does; what only some need, such as credentials, stands with their skills.
    """
    shown = {
        "name": "Parley",
        "description": f"A platform of {len(agents)} agents. The tenant of an interface names the agent behind it.",
        "version": version("parley"),
        "supportedInterfaces": _interfaces(agents),
        "provider": cards.provider(),
        "capabilities": _capabilities(agents),
        "defaultInputModes": sorted({mode for agent in agents for mode in agent.input_modes}),
        "defaultOutputModes": sorted({mode for agent in agents for mode in agent.output_modes}),
        "skills": [skill for agent in agents for skill in _skills(agent)],
    }
    closed = [not agent.is_public for agent in agents]
    if any(closed) or any(agent.has_extended_card for agent in agents):
        shown["securitySchemes"] = cards.SECURITY_SCHEMES
    if all(closed):
        shown["securityRequirements"] = cards.SECURITY_REQUIREMENTS
    return shown


def _interfaces(agents: Sequence[Agent]) -> list[dict[str, str]]:
    """Those of the agents by their tenants; where there is a router, first those that need none, and old ones last."""
    has_router = any(agent.slug == settings.ROUTER_AGENT for agent in agents)
    tenants = [""] * has_router + [agent.slug for agent in agents]
    current = [interface for tenant in tenants for interface in cards.interfaces(endpoint(), tenant)]
    return current + (cards.old_interfaces(endpoint()) if has_router else [])


def _capabilities(agents: Sequence[Agent]) -> dict[str, Any]:
    first, *others = [cards.capabilities(agent) for agent in agents]
    able = {name: all(each[name] for each in (first, *others)) for name in first if name != "extensions"}
    extensions = [
        one for one in first.get("extensions", []) if all(one in each.get("extensions", []) for each in others)
    ]
    return able | ({"extensions": extensions} if extensions else {})


def _skills(agent: Agent) -> list[dict[str, Any]]:
    """The agent's skills, under ids that no other agent's have, with what else holds for them alone."""
    own: dict[str, Any] = {"inputModes": agent.input_modes, "outputModes": agent.output_modes}
    if not agent.is_public:
        own["securityRequirements"] = cards.SECURITY_REQUIREMENTS
    return [own | skill | {"id": f"{agent.slug}/{skill['id']}"} for skill in cards.skills(agent)]
