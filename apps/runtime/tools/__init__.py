"""The tools that every installation can give to its agents without code; AGENT_TOOLS names further modules."""

from apps.runtime.tools.calculator import calculate
from apps.runtime.tools.clock import current_time
from apps.runtime.tools.files import read_file

__all__ = ["calculate", "current_time", "read_file"]
