"""The closed set of event types, with their payloads: JSON with messages and parts in the A2A 1.0 shape."""

from __future__ import annotations

from typing import Any, NotRequired

from django.db import models
from typing_extensions import TypedDict

JSON = dict[str, Any]


class EventType(models.TextChoices):
    USER_MESSAGE = "user_message"
    AGENT_START = "agent_start"
    AGENT_READ = "agent_read"
    STOP_REQUESTED = "stop_requested"
    GUARDRAIL = "guardrail"
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
    SESSION_SHARED = "session_shared"
    SESSION_FORKED = "session_forked"
    SESSION_MOVED = "session_moved"


class Opening(TypedDict):
    """A new context, in its first event. `parentTask`: the task that called the agent. `options`: of the agent here.

    `version`: of the agent, with which it begins; absent in older logs, and if a handler or a remote card defines it.
    `project`: the key of the project that it begins in. `temporary`: it neither uses nor leaves memory.
    """

    contextId: str
    owner: int | None
    workspace: int
    agent: int
    title: str
    parentTask: NotRequired[str]
    options: NotRequired[JSON]
    version: NotRequired[int]
    project: NotRequired[str]
    temporary: NotRequired[bool]


class NewTask(TypedDict):
    """The task that a message opens. `parent`: the task that called the agent. `metadata.skill`: the chosen skill."""

    agent: int
    references: list[str]
    parent: NotRequired[str]
    metadata: NotRequired[JSON]


def imported_author(told: JSON) -> str:
    """The model, or the program, that wrote what was imported. `told`: the `imported` of its payload or metadata."""
    return str(told.get("model") or told["source"])


DATED = "dated"
"""The key of a payload that says when an imported event happened, in ISO 8601. `Event.at` says when it was recorded:
readers that follow the log go by that."""


DELIVERED = "delivered"
"""The key of a completed task's message if the artifacts have all that it says: A2A shows it in the history alone."""


class Imported(TypedDict):
    """Where a message was before. `at`: its time there, in ISO 8601."""

    source: str
    at: NotRequired[str]
    model: NotRequired[str]
    leftOut: NotRequired[int]


class UserMessage(TypedDict):
    """It unarchives its session. `title`: for a session without one, or a new fork. `saved`: not sent to an agent.

    `imported`: from another program; no agent here got it. `dated`: see `DATED`.

    `by`: the key of the member who wrote it; absent: the session's owner. A task that it opens belongs to them.

    `someAgents`: it continues its task by a credential that reaches only some agents.
    """

    message: JSON
    by: NotRequired[int]
    saved: NotRequired[bool]
    imported: NotRequired[Imported]
    dated: NotRequired[str]
    opens: NotRequired[Opening]
    task: NotRequired[NewTask]
    title: NotRequired[str]
    someAgents: NotRequired[bool]


class AgentStart(TypedDict):
    """`again`: an earlier start does not count as an attempt: its worker gave the turn back, or died with others.

    `agent`: takes the turn instead of the task's agent. `version`: of the agent; absent in older logs.
    """

    attempt: int
    turn: int
    messageId: str
    agent: NotRequired[int]
    version: NotRequired[int]
    again: NotRequired[bool]


class AgentRead(TypedDict):
    """The running turn read messages of its task, which then wait for no turn of their own.

    `messages`: their messageIds. `until`: the index of the last one. Another attempt of the turn begins without them.
    """

    messages: list[str]
    until: int


class StopRequested(TypedDict):
    """Somebody wants the running turn to end after its step. It changes no row. `by`: the user's key."""

    by: int | None


class Guardrail(TypedDict):
    """A guardrail decided about what goes to an agent or comes from it. It changes no row, and quotes nothing.

    `rail`: its id. `direction`: `in` or `out`. `action`: `block`, `redact` or `ask`. `counts`: what it found, by
    category. `ms`: how long it took. `messageId`: of the message that was checked, on its way in. `watched`: nothing
    was done. `failed`: it could not check, `late` or by an `error`; `passed`: and so let it pass. `answer`: what
    somebody (`by`) chose who was asked: `send`, `redact`, `show` or `stop`.
    """

    rail: str
    name: str
    direction: str
    action: str
    counts: dict[str, int]
    ms: int
    messageId: NotRequired[str]
    watched: NotRequired[bool]
    failed: NotRequired[str]
    passed: NotRequired[bool]
    answer: NotRequired[str]
    by: NotRequired[int | None]


class Slot(TypedDict):
    """What a task asks for. `order`: of the object schema's properties. `value`: the agent's data for the next turn.

    `child`: the child task that asks. `service`: a credential is asked for, which comes by a link, not by a message.
    `approvers`: so many people must approve the tool calls in `value`. `payment`: the payment that is asked for, as one
    of x402's `accepts`; only the platform writes it. `guard`: guardrails ask; only the platform writes it.
    """

    name: str
    schema: NotRequired[JSON]
    order: NotRequired[list[str]]
    service: NotRequired[str]
    child: NotRequired[str]
    approvers: NotRequired[int]
    payment: NotRequired[JSON]
    guard: NotRequired[JSON]
    value: NotRequired[Any]


class Approval(TypedDict):
    """A person's decision about a tool call. `by`: the user's key. `arguments`: as they were approved or refused.

    `title`: what its server calls the tool. `edited`: this person changed the arguments. `session`: the tool needs no
    approval in this session any more. `final`: nobody else need approve.
    """

    callId: str
    tool: str
    arguments: JSON
    approved: bool
    final: bool
    by: int | None
    name: str
    reason: NotRequired[str]
    title: NotRequired[str]
    edited: NotRequired[bool]
    session: NotRequired[bool]


class AgentStatus(TypedDict):
    """A change of state, or `progress`, whose message is not part of the history.

    `because`: why a waiting task continues without a message. `skill`: the turn's choice. `agent`: wrote the message;
    with progress, takes over the turn, in its `version`. `kept`: a remote agent's data without a place in A2A; it
    changes nothing and is not sent. `approval`: what a person decided about a tool call.
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
    approval: NotRequired[Approval]


class AgentMessage(TypedDict):
    """`agent`: the author; absent in older logs. `version`: of the agent, if it answered without a run.

    `imported`: another program's agent wrote it, none of this installation. `dated`: see `DATED`.
    """

    message: JSON
    imported: NotRequired[Imported]
    dated: NotRequired[str]
    agent: NotRequired[int]
    version: NotRequired[int]


class AgentTokenStart(TypedDict):
    artifactId: str
    name: str


class AgentToken(TypedDict):
    """A piece of a streamed artifact's text."""

    artifactId: str
    name: str
    text: str
    first: NotRequired[bool]


class AgentTokenEnd(TypedDict):
    """The last piece of text, which may be empty."""

    artifactId: str
    name: str
    text: str
    first: NotRequired[bool]


class AgentThought(TypedDict):
    text: str


class AgentToolCall(TypedDict):
    """`ofApp`: the page that event `ofApp` shows made the call, for the user `by`."""

    callId: str
    name: str
    arguments: JSON
    ofApp: NotRequired[int]
    by: NotRequired[int | None]


class App(TypedDict):
    """A page that shows a tool's result (MCP Apps). `server`: its URL without the query, or its command line.

    `digest`: tells servers of one URL without the query apart, as `McpServer.digest`.
    `parts`: the page, and what it shows: `arguments` and the whole `result`. `ui`: what it wishes of its frame.
    `problem`: why there is no page. `agent`: whose tool server it is.
    """

    server: str
    digest: str
    uri: str
    agent: int
    parts: list[JSON]
    ui: NotRequired[JSON]
    problem: NotRequired[str]


class AgentToolResult(TypedDict):
    """`ofApp`: of a call that a page made. `whole`: the result, if `result` is only its beginning."""

    callId: str
    name: str
    result: Any
    isError: bool
    app: NotRequired[App]
    ofApp: NotRequired[int]
    whole: NotRequired[JSON]


class ArtifactUpdate(TypedDict):
    """One chunk: `artifact` in the A2A shape, with this chunk's parts.

    `joined`: its first text goes on with the last text of the chunk before.
    """

    artifact: JSON
    append: bool
    lastChunk: bool
    joined: NotRequired[bool]


PART_HOLDERS = ("message", "artifact", "app", "whole")
"""The keys of payloads that have `parts`."""


class AgentComplete(TypedDict):
    """The task's artifact ids; `signatures` by id, if signed (`signatures.sign_artifacts`)."""

    artifacts: list[str]
    signatures: NotRequired[dict[str, JSON]]
    usage: NotRequired[JSON]


class AgentFailed(TypedDict):
    """The task failed or was rejected, or one turn of it. `discarded`: its provisional artifacts."""

    code: str
    discarded: list[str]


class AgentCancelled(TypedDict):
    discarded: list[str]


class MessageVersion(TypedDict):
    """A message's primary key, and the session in which it was sent."""

    message: str
    session: str


class Edited(TypedDict):
    """A fork's own first message, by its messageId, and the `versions` that it replaces, oldest first."""

    messageId: str
    versions: list[MessageVersion]


class Fork(TypedDict):
    """The log continues event `at` of another. `left`: its tasks that had not ended; they do not continue here.

    `root`: the first session of the family (`Context.family_key`).
    """

    opens: Opening
    dated: NotRequired[str]
    parent: str
    at: int
    reason: str
    left: list[str]
    root: NotRequired[str]  # absent in older logs
    edited: NotRequired[Edited]


class Edit(TypedDict):
    """A message was edited: the new version is in another session, a fork of this one."""

    messageId: str
    session: str


class AgentSwitched(TypedDict):
    """From here on the session is with this agent, with these `options`; absent: none.

    `kept`: the agent was this one before, and only the options changed. `version`: as of `Opening`.
    """

    agent: int
    slug: str
    kept: NotRequired[bool]
    options: NotRequired[JSON]
    version: NotRequired[int]


class Feedback(TypedDict):
    rating: int
    feedback: NotRequired[str]
    metadata: NotRequired[JSON]


class SessionRenamed(TypedDict):
    """It may also open a session that has no message yet. `by`: "model" if no person chose the title."""

    title: str
    opens: NotRequired[Opening]
    by: NotRequired[str]
    dated: NotRequired[str]


class SessionMark(TypedDict):
    """Archived or unarchived, by the event's type."""


class SessionShared(TypedDict):
    """`sharing`: `workspace`, for all its members, or `private`, for the owner alone."""

    sharing: str


class SessionMoved(TypedDict):
    """Into the `project` with this key; None: out of the one that it was in."""

    project: str | None


class SessionForked(TypedDict):
    """A fork of this session began: `session`, after event `at`. An edit has its own event."""

    session: str
    at: int
    reason: str


class SessionDeleted(TypedDict):
    """All that remains of a log: owner and time; of a fork also its parent and branch point."""

    opens: Opening
    createdAt: str
    parent: NotRequired[str]
    at: NotRequired[int]
    reason: NotRequired[str]
    root: NotRequired[str]


PAYLOADS: dict[EventType, type] = {
    EventType.USER_MESSAGE: UserMessage,
    EventType.AGENT_START: AgentStart,
    EventType.AGENT_READ: AgentRead,
    EventType.STOP_REQUESTED: StopRequested,
    EventType.GUARDRAIL: Guardrail,
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
    EventType.SESSION_SHARED: SessionShared,
    EventType.SESSION_FORKED: SessionForked,
    EventType.SESSION_MOVED: SessionMoved,
}
