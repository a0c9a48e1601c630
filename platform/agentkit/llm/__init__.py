"""Language models for agents: typed functions, workers with tools, and the models themselves by name.

Importing it is quick: the model library is imported when a model is first asked.
"""

from agentkit.llm.functions import LlmFunction
from agentkit.llm.models import NoModel, use_models
from agentkit.llm.scripting import Asked, Call, Returned, Scripted, scripted
from agentkit.llm.surroundings import Surroundings, use_surroundings
from agentkit.llm.tools import AgentTool, McpServer
from agentkit.llm.workers import LlmWorker

__all__ = [
    "AgentTool",
    "Asked",
    "Call",
    "LlmFunction",
    "LlmWorker",
    "McpServer",
    "NoModel",
    "Returned",
    "Scripted",
    "Surroundings",
    "scripted",
    "use_models",
    "use_surroundings",
]
