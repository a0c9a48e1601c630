"""The tools that every installation can give to its agents without code; AGENT_TOOLS names further modules."""

from apps.features.model_agents.tools.calculator import calculate
from apps.features.model_agents.tools.clock import current_time
from apps.features.model_agents.tools.files import read_file

__all__ = ["calculate", "current_time", "read_file"]
