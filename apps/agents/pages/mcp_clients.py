"""How MCP clients connect to an address: for an agent's page, and for `docs/doors/mcp.md`."""

from __future__ import annotations

import json
import shlex

from django.conf import settings

NAME = "parley"


def connections(url: str = "") -> list[tuple[str, str]]:
    """A line to copy for each client, by its name; none without MCP, or where clients cannot register themselves.

    By default they lead to this installation's agents.
    """
    if "mcp" in settings.LEFT_OUT or not (settings.OAUTH_ENABLED and settings.OAUTH_OPEN_REGISTRATION):
        return []
    url = url or f"{settings.PUBLIC_BASE_URL}/mcp"
    typed = shlex.quote(url)
    server = json.dumps({"name": NAME, "type": "http", "url": url})
    return [
        ("Claude Code", f"claude mcp add --transport http {NAME} {typed}"),
        ("Codex", f"codex mcp add {NAME} --url {typed}"),
        ("Gemini CLI", f"gemini mcp add --transport http {NAME} {typed}"),
        ("Cursor, in ~/.cursor/mcp.json", json.dumps({"mcpServers": {NAME: {"url": url}}})),
        ("VS Code", f"code --add-mcp {shlex.quote(server)}"),
        ("mcp-remote, for other clients", f"npx -y mcp-remote {typed}"),
    ]
