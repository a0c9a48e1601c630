"""Language models for agents: typed functions, workers with tools, and models by name.

The model library is imported only when a model is first asked.
"""

from typing import TYPE_CHECKING, Any

from agentkit.llm.agents import MODEL_WISHES, LlmFunction, LlmWorker, skill_by_model
from agentkit.llm.models import NoModel, Scripted, Surroundings, has_model, scripted, use_models, use_surroundings
from agentkit.llm.reading import MODEL_INPUTS
from agentkit.llm.scripting import Asked, Returned, UseTool
from agentkit.llm.tools import AgentTool, McpServer, search_knowledge
from agentkit.selecting import by_model

if TYPE_CHECKING:
    from agentkit.llm.conversations import from_model_messages, to_model_messages


def __getattr__(name: str) -> Any:
    """`to_model_messages` and `from_model_messages`, which import the model library."""
    if name not in ("to_model_messages", "from_model_messages"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agentkit.llm import conversations

    return getattr(conversations, name)


__all__ = [
    "MODEL_INPUTS",
    "MODEL_WISHES",
    "AgentTool",
    "Asked",
    "LlmFunction",
    "LlmWorker",
    "McpServer",
    "NoModel",
    "Returned",
    "Scripted",
    "Surroundings",
    "UseTool",
    "by_model",
    "from_model_messages",
    "has_model",
    "scripted",
    "search_knowledge",
    "skill_by_model",
    "to_model_messages",
    "use_models",
    "use_surroundings",
]
