"""What agents show to MCP servers so as to be let in: kept encrypted, for one agent and one URL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.agents.definitions import Definition
from apps.agents.models import Agent, ToolSecret


def keep(agent: Agent, servers: Sequence[dict[str, Any]]) -> None:
    """Keep what rows of the form say: a new secret, the old one, or none. Those of other URLs are forgotten."""
    staying = [server["url"].strip() for server in servers if not server["forget"] or server["secret"]]
    agent.tool_secrets.exclude(url__in=staying).delete()
    for server in servers:
        if server["secret"]:
            ToolSecret.objects.update_or_create(
                agent=agent, url=server["url"].strip(), defaults={"secret": server["secret"]}
            )


def headers_of(agent: Agent, definition: Definition) -> dict[str, dict[str, str]]:
    """For the URL of each MCP server, the header that lets the agent in. Raises keyring.CannotDecrypt."""
    if not definition.mcp_servers:
        return {}
    kept = dict(ToolSecret.objects.filter(agent=agent).values_list("url", "secret"))
    return {
        server.url: {server.header: kept[server.url]} if server.url in kept else {} for server in definition.mcp_servers
    }
