"""Language models for agents: typed functions, workers with tools, and the models themselves by name.

Importing it is quick: the model library is imported when a model is first asked.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentkit.llm.deciding import skill_by_model
from agentkit.llm.functions import LlmFunction
from agentkit.llm.models import NoModel, has_model, use_models
from agentkit.llm.scripting import Asked, Returned, Scripted, UseTool, scripted
from agentkit.llm.surroundings import Surroundings, use_surroundings
from agentkit.llm.tools import AgentTool, McpServer
from agentkit.llm.workers import LlmWorker
from agentkit.messages import Message
from agentkit.selecting import by_model
from agentkit.threads import Thread

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage


def to_model_messages(thread: Iterable[Message]) -> "list[ModelMessage]":
    """A thread as messages of pydantic-ai. Of files, texts are included, and images of the newest message."""
    from agentkit.llm import conversations

    return conversations.to_model_messages(thread)


def from_model_messages(messages: "Iterable[ModelMessage]") -> Thread:
    """What was said in messages of pydantic-ai, as a thread; calls of tools and their results are left out."""
    from agentkit.llm import conversations

    return conversations.from_model_messages(messages)


__all__ = [
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
    "skill_by_model",
    "to_model_messages",
    "use_models",
    "use_surroundings",
]
