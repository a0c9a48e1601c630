"""What an agent's author imports: describe an agent, take its turns, say things on the way, deliver.

Nothing here knows a database or a framework: `driving.drive` runs an agent anywhere, `testing.run` in a test.
"""

from agentkit.artifacts import Artifact, ReceivedArtifact
from agentkit.context import Emit, SyncTaskContext, TaskContext
from agentkit.credentials import Credential
from agentkit.deciding import chooses, decide
from agentkit.delegation import Call, ChildFailed, ChildResult, Suspended
from agentkit.driving import Answer, answer, drive, needs_thread
from agentkit.emissions import (
    Chunk,
    Emission,
    Foreign,
    Progress,
    SkillChosen,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    Usage,
    WholeAnswer,
)
from agentkit.errors import HandlerError, InvalidAnswer
from agentkit.functions import agent
from agentkit.handlers import SkillHandler
from agentkit.loading import as_handler, load_handler
from agentkit.messages import File, Message
from agentkit.negotiation import Chooser, Clarify, Decision, Reject, Start, by_words
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
from agentkit.selecting import ExistingTask, ResponseType, always_message, always_task, by_rules
from agentkit.sessions import Session
from agentkit.skill_files import load_skills
from agentkit.skills import Skill, skill
from agentkit.slots import NotAnswered, Slot
from agentkit.streams import ArtifactStream, SyncArtifactStream
from agentkit.threads import Thread
from agentkit.tools import tool
from agentkit.turns import ReferencedTask, Stopped

__all__ = [
    "AgentFailure",
    "Answer",
    "Artifact",
    "ArtifactStream",
    "AuthRequired",
    "Call",
    "ChildFailed",
    "ChildResult",
    "Chooser",
    "Chunk",
    "Clarify",
    "Completed",
    "Credential",
    "Decision",
    "Emission",
    "Emit",
    "ExistingTask",
    "Failed",
    "File",
    "Foreign",
    "HandlerError",
    "InputRequired",
    "InvalidAnswer",
    "Message",
    "NotAnswered",
    "Outcome",
    "Part",
    "Progress",
    "ReceivedArtifact",
    "ReferencedTask",
    "Reject",
    "Rejected",
    "ResponseType",
    "Session",
    "Skill",
    "SkillChosen",
    "SkillHandler",
    "Slot",
    "Start",
    "Stopped",
    "Suspended",
    "SyncArtifactStream",
    "SyncTaskContext",
    "TaskContext",
    "Thought",
    "Thread",
    "Token",
    "ToolCall",
    "ToolResult",
    "UnreadableContent",
    "Usage",
    "WholeAnswer",
    "agent",
    "always_message",
    "always_task",
    "answer",
    "as_handler",
    "as_outcome",
    "by_rules",
    "by_words",
    "chooses",
    "data_part",
    "decide",
    "drive",
    "load_handler",
    "load_skills",
    "needs_thread",
    "raw_part",
    "skill",
    "text_part",
    "tool",
    "url_part",
]
