"""GET /v1/models: the agents that the caller may use."""

from __future__ import annotations

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.doors.callers import open_agent
from apps.record.events import JSON


def list_models(principal: Principal) -> JSON:
    agents = Agent.objects.visible_to(principal).listed().order_by("name")
    return {"object": "list", "data": [_model(agent) for agent in agents]}


def one_model(principal: Principal, slug: str) -> JSON:
    """Raises AgentNotFound."""
    return _model(open_agent(principal, slug))


def _model(agent: Agent) -> JSON:
    return {
        "id": agent.slug,
        "object": "model",
        "created": int(agent.created_at.timestamp()),
        "owned_by": "parley",
        "name": agent.name,
        "description": agent.description,
    }
