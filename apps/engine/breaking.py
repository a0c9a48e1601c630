"""When an agent's own code fails: what people are told, and the code that programs and operators see."""

from agentkit import HandlerError, InvalidAnswer

BROKEN = "The agent stopped because of an error of its own. Its operators can see the details."
INVALID = "invalid_agent_response"  # A2A's word for it


def code_of(error: Exception) -> str:
    """A stable word for what went wrong."""
    if isinstance(error, InvalidAnswer):
        return INVALID
    return "agent_unavailable" if isinstance(error, HandlerError) else "agent_error"
