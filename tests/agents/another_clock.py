"""Tools with a name that is already used."""

import agentkit


@agentkit.tool()
def current_time() -> str:
    """Tells another time."""
    return "never"
