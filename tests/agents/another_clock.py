"""A module of tools with a name that is taken."""

import agentkit


@agentkit.tool()
def current_time() -> str:
    """Tells another time."""
    return "never"
