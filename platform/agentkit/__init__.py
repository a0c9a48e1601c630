"""What an agent's author imports: describe an agent, take its turns, say things on the way, deliver.

Nothing here knows a database or a framework: `driving.drive` runs an agent anywhere, `testing.run` in a test.
"""

from agentkit.artifacts import Artifact, ReceivedArtifact
from agentkit.context import Emit, SyncTaskContext, TaskContext
from agentkit.delegation import Call, ChildFailed, ChildResult, Suspended
from agentkit.driving import answer, drive, needs_thread
from agentkit.emissions import Chunk, Emission, Progress, Thought, Token, ToolCall, ToolResult, Usage
from agentkit.handlers import (
    HandlerError,
    ResponseType,
    Skill,
    SkillHandler,
    agent,
    as_handler,
    load_handler,
)
from agentkit.messages import File, Message
from agentkit.outcomes import (
    AgentFailure,
    AuthRequired,
    Completed,
    Failed,
    InputRequired,
    Outcome,
    Rejected,
    as_outcome,
)
from agentkit.parts import Part, UnreadableContent, data_part, raw_part, text_part, url_part
from agentkit.streams import ArtifactStream, SyncArtifactStream
from agentkit.tools import tool
from agentkit.turns import ReferencedTask, Stopped

__all__ = [
    "AgentFailure",
    "Artifact",
    "ArtifactStream",
    "AuthRequired",
    "Call",
    "ChildFailed",
    "ChildResult",
    "Chunk",
    "Completed",
    "Emission",
    "Emit",
    "Failed",
    "File",
    "HandlerError",
    "InputRequired",
    "Message",
    "Outcome",
    "Part",
    "Progress",
    "ReceivedArtifact",
    "ReferencedTask",
    "Rejected",
    "ResponseType",
    "Skill",
    "SkillHandler",
    "Stopped",
    "Suspended",
    "SyncArtifactStream",
    "SyncTaskContext",
    "TaskContext",
    "Thought",
    "Token",
    "ToolCall",
    "ToolResult",
    "UnreadableContent",
    "Usage",
    "agent",
    "answer",
    "as_handler",
    "as_outcome",
    "data_part",
    "drive",
    "load_handler",
    "needs_thread",
    "raw_part",
    "text_part",
    "tool",
    "url_part",
]
