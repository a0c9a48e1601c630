"""Remote agents as the registry has them, without a server behind them unless a test gives one."""

from typing import Any

from apps.agents import versions
from apps.agents.models import Agent
from apps.agents.registration import house_workspace


def remote_agent(slug: str, url: str = "https://agents.invalid/a2a", **fields: Any) -> Agent:
    """An agent whose card says that it is there."""
    agent = Agent.objects.create(
        slug=slug, name=slug.capitalize(), description="Somewhere else.", kind=Agent.Kind.REMOTE,
        workspace=house_workspace(), **fields,
    )  # fmt: skip
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card = {
        "name": agent.name, "description": agent.description, "version": "1.0.0", "supportedInterfaces": [interface],
        "capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "talk", "name": "Talk", "description": "Talks.", "tags": ["talk"]}],
    }  # fmt: skip
    versions.keep(agent, {"kind": "remote", "card": card})
    return agent
