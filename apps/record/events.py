"""The closed set of event types, each with the shape of its payload.

Payloads are JSON; parts and messages in them are in the A2A 1.0 shape. A key that may be absent is `NotRequired`.
"""

from __future__ import annotations

from typing import Any, NotRequired

from django.db import models
from typing_extensions import TypedDict

JSON = dict[str, Any]


class EventType(models.TextChoices):
    USER_MESSAGE = "user_message"
    AGENT_START = "agent_start"
    AGENT_STATUS = "agent_status"
    AGENT_MESSAGE = "agent_message"
    AGENT_TOKEN_START = "agent_token_start"  # noqa: S105
    AGENT_TOKEN = "agent_token"  # noqa: S105
    AGENT_TOKEN_END = "agent_token_end"  # noqa: S105
    AGENT_THOUGHT = "agent_thought"
    AGENT_TOOL_CALL = "agent_tool_call"
    AGENT_TOOL_RESULT = "agent_tool_result"
    ARTIFACT_UPDATE = "artifact_update"
    AGENT_COMPLETE = "agent_complete"
    AGENT_FAILED = "agent_failed"
    AGENT_CANCELLED = "agent_cancelled"
    FORK = "fork"
    EDIT = "edit"
    AGENT_SWITCHED = "agent_switched"
    FEEDBACK = "feedback"
    SESSION_RENAMED = "session_renamed"
    SESSION_ARCHIVED = "session_archived"
    SESSION_UNARCHIVED = "session_unarchived"
    SESSION_DELETED = "session_deleted"


class Opening(TypedDict):
    """How a context began; in the payload of its first event. `parentTask` called for what is done in it.

    `options` are how its agent is set up in it, where it began with some.
    """

    contextId: str
    owner: int | None
    workspace: int
    agent: int
    title: str
    parentTask: NotRequired[str]
    options: NotRequired[JSON]


class NewTask(TypedDict):
    """The task that a user's message opened; its `parent` is the task that called for it.

    `metadata.skill` is the agent's skill that was chosen for it.
    """

    agent: int
    references: list[str]
    parent: NotRequired[str]
    metadata: NotRequired[JSON]


class UserMessage(TypedDict):
    """It also takes its session out of the archive. `title` is for a session that had none."""

    message: JSON
    opens: NotRequired[Opening]
    task: NotRequired[NewTask]
    title: NotRequired[str]


class AgentStart(TypedDict):
    """`again`: a worker that had to end gave the turn back; this does not count as an attempt.

    `agent`: who takes the turn, where that is not the task's agent. `version`: the number of the version of the agent
    that the turn goes by; older logs do not say it.
    """

    attempt: int
    turn: int
    messageId: str
    agent: NotRequired[int]
    version: NotRequired[int]
    again: NotRequired[bool]


class Slot(TypedDict):
    """What a task asks for; `order` names the properties of an object schema as its author ordered them.

    `value` is data of the agent's own, for the turn that takes the answer. `child` is the task that asks, where it is
    one that the task had called for. With a `service` it is a credential, which the platform asks for: it comes by a
    link, and not by a message.
    """

    name: str
    schema: NotRequired[JSON]
    order: NotRequired[list[str]]
    service: NotRequired[str]
    child: NotRequired[str]
    value: NotRequired[Any]


class AgentStatus(TypedDict):
    """A change of state, or progress while working (`progress`: the message is no turn of talk).

    `because`: why a task that waited goes on without a message. `skill` is the one that takes the task, where a turn
    found that out. `agent`: who wrote the message; with progress, who takes the turn from here on, by its `version`.
    `kept` is what a remote agent said that A2A has no place for: it changes nothing, and goes nowhere.
    """

    state: str
    agent: NotRequired[int]
    version: NotRequired[int]
    skill: NotRequired[str]
    message: NotRequired[JSON]
    slot: NotRequired[Slot]
    progress: NotRequired[JSON]
    because: NotRequired[str]
    kept: NotRequired[JSON]


class AgentMessage(TypedDict):
    """`agent`: who wrote it; what was recorded before agents could be switched does not say.

    `version`: of the agent, where it answered without a run, which would say it.
    """

    message: JSON
    agent: NotRequired[int]
    version: NotRequired[int]


class AgentTokenStart(TypedDict):
    artifactId: str
    name: str


class AgentToken(TypedDict):
    """Text of the artifact that the tokens will be; `first` for its first piece."""

    artifactId: str
    name: str
    text: str
    first: NotRequired[bool]


class AgentTokenEnd(TypedDict):
    """The last piece of text (which may be empty)."""

    artifactId: str
    name: str
    text: str
    first: NotRequired[bool]


class AgentThought(TypedDict):
    text: str


class AgentToolCall(TypedDict):
    callId: str
    name: str
    arguments: JSON


class AgentToolResult(TypedDict):
    callId: str
    name: str
    result: Any
    isError: bool


class ArtifactUpdate(TypedDict):
    """One chunk: `artifact` in the A2A shape, with the parts of this chunk alone."""

    artifact: JSON
    append: bool
    lastChunk: bool


class AgentComplete(TypedDict):
    """The task's artifacts, by id; `signatures` of those that are signed (see `signatures.sign_artifacts`)."""

    artifacts: list[str]
    signatures: NotRequired[dict[str, JSON]]
    usage: NotRequired[JSON]


class AgentFailed(TypedDict):
    """The task failed or was rejected, or a turn did after which it goes on; `discarded` names what it had begun."""

    code: str
    discarded: list[str]


class AgentCancelled(TypedDict):
    discarded: list[str]


class Fork(TypedDict):
    """The log goes on from event `at` of another; tasks that had not ended by then are `left`, which is no further."""

    opens: Opening
    parent: str
    at: int
    reason: str
    left: list[str]


class Edit(TypedDict):
    """A message was written anew in another session, which is a fork of this one."""

    messageId: str
    session: str


class AgentSwitched(TypedDict):
    """From here on the conversation is with this agent, which has these `options` in it: without them, none."""

    agent: int
    slug: str
    options: NotRequired[JSON]


class Feedback(TypedDict):
    rating: int
    feedback: NotRequired[str]
    metadata: NotRequired[JSON]


class SessionRenamed(TypedDict):
    """It also `opens` a session in which nothing is said yet."""

    title: str
    opens: NotRequired[Opening]


class SessionMark(TypedDict):
    """Archived or unarchived: the type says it all."""


class SessionDeleted(TypedDict):
    """All that is left of a log: whose it was, and when it began; of a fork, where it had gone on from."""

    opens: Opening
    createdAt: str
    parent: NotRequired[str]
    at: NotRequired[int]
    reason: NotRequired[str]


PAYLOADS: dict[EventType, type] = {
    EventType.USER_MESSAGE: UserMessage,
    EventType.AGENT_START: AgentStart,
    EventType.AGENT_STATUS: AgentStatus,
    EventType.AGENT_MESSAGE: AgentMessage,
    EventType.AGENT_TOKEN_START: AgentTokenStart,
    EventType.AGENT_TOKEN: AgentToken,
    EventType.AGENT_TOKEN_END: AgentTokenEnd,
    EventType.AGENT_THOUGHT: AgentThought,
    EventType.AGENT_TOOL_CALL: AgentToolCall,
    EventType.AGENT_TOOL_RESULT: AgentToolResult,
    EventType.ARTIFACT_UPDATE: ArtifactUpdate,
    EventType.AGENT_COMPLETE: AgentComplete,
    EventType.AGENT_FAILED: AgentFailed,
    EventType.AGENT_CANCELLED: AgentCancelled,
    EventType.FORK: Fork,
    EventType.EDIT: Edit,
    EventType.AGENT_SWITCHED: AgentSwitched,
    EventType.FEEDBACK: Feedback,
    EventType.SESSION_RENAMED: SessionRenamed,
    EventType.SESSION_ARCHIVED: SessionMark,
    EventType.SESSION_UNARCHIVED: SessionMark,
    EventType.SESSION_DELETED: SessionDeleted,
}
