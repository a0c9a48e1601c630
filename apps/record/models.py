"""The record's tables: an append-only log of events for each context, and the rows derived from it.

Only `ledger` writes the log, contexts, tasks, messages and artifacts. Task states and their transitions come first. The
models after `Segment`, and those of `execution`, are not part of replay.

A foreign key that begins another index has none of its own (`db_index=False`): each index slows every event.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Hashable
from functools import cached_property
from typing import Any, ClassVar

from django.db import models
from django.db.models.functions import Coalesce
from django.utils import timezone

from apps.accounts.models import User, Workspace, may_operate
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet
from apps.agents.models import Agent
from apps.record import execution  # noqa: F401  # Django looks for models in this module
from apps.record.content.strict_json import digest_of
from apps.record.errors import ContextNotFound, TaskNotFound
from apps.record.events import DATED, PART_HOLDERS, EventType
from apps.record.reading.visibility import is_seen, seen_by, shared_workspace


class TaskState(models.TextChoices):
    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    AUTH_REQUIRED = "auth-required"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELED = "canceled"

    @cached_property
    def is_terminal(self) -> bool:
        """Nothing follows this state."""
        return not TRANSITIONS[self]

    @cached_property
    def is_interrupted(self) -> bool:
        """The task waits for an answer or a credential."""
        return self in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)

    @cached_property
    def is_settled(self) -> bool:
        """The task has ended, or it waits."""
        return self.is_terminal or self.is_interrupted

    @cached_property
    def wire(self) -> str:
        """The state's name in A2A 1.0."""
        return "TASK_STATE_" + self.value.upper().replace("-", "_")

    @classmethod
    def from_wire(cls, name: str) -> TaskState:
        """The state of an A2A 1.0 name. Raises ValueError for an unknown one."""
        return cls(name.removeprefix("TASK_STATE_").lower().replace("_", "-"))


_S = TaskState
_AFTER_A_QUESTION = frozenset({_S.WORKING, _S.CANCELED, _S.FAILED, _S.REJECTED})

TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    _S.SUBMITTED: frozenset({_S.WORKING, _S.REJECTED, _S.CANCELED, _S.FAILED}),
    _S.WORKING: frozenset(
        {_S.WORKING, _S.INPUT_REQUIRED, _S.AUTH_REQUIRED, _S.COMPLETED, _S.FAILED, _S.REJECTED, _S.CANCELED}
    ),
    _S.INPUT_REQUIRED: _AFTER_A_QUESTION,
    _S.AUTH_REQUIRED: _AFTER_A_QUESTION,
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.REJECTED: frozenset(),
    _S.CANCELED: frozenset(),
}
TERMINAL_STATES = frozenset(state for state in TaskState if state.is_terminal)
UNFINISHED_STATES = tuple(state for state in TaskState if not state.is_terminal)
FAULTY_STATES = (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED)
SETTLED_STATES = frozenset(state for state in TaskState if state.is_settled)
INTERRUPTED_STATES = tuple(state for state in TaskState if state.is_interrupted)


class IllegalTransition(Exception):
    """A task's change of state that TRANSITIONS does not have."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"A task that is {old} cannot become {new}.")


class ContextQuerySet(VisibleQuerySet["Context"]):
    not_found = ContextNotFound

    def visible_to(self, principal: Principal) -> ContextQuerySet:
        """The contexts that the caller may see, not deleted: their own, and those shared with their workspace.

        Anonymous callers share theirs, so filter these by id.
        """
        return principal.only_agents(self.filter(seen_by(principal), deleted_at=None), "agent")

    def of(self, principal: Principal) -> ContextQuerySet:
        """The caller's own contexts that are not deleted."""
        return principal.only_agents(self.filter(**principal.own(), deleted_at=None), "agent")

    def shared_with(self, principal: Principal) -> ContextQuerySet:
        """Other people's contexts that are shared with the caller's workspace."""
        shared = self.filter(is_shared=True, workspace=shared_workspace(principal), deleted_at=None)
        return principal.only_agents(shared.exclude(owner=principal.user_id), "agent")

    def ever_seen_by(self, principal: Principal) -> ContextQuerySet:
        """`ever_visible_to`, and those of others that are shared with the caller's workspace."""
        return self.ever_visible_to(principal) | self.shared_with(principal)

    def ever_visible_to(self, principal: Principal) -> ContextQuerySet:
        """A known caller's own contexts, with the tombstones of deleted ones."""
        own = self.filter(**principal.own()) if principal.is_known else self.none()
        return principal.only_agents(own, "agent")

    def recorded_after(self, at: datetime.datetime) -> ContextQuerySet:
        """Those whose `recorded_at` is later."""
        return self.filter(models.Q(updated_at__gt=at) | models.Q(imported_at__gt=at))

    def listed(self) -> ContextQuerySet:
        """Conversations begun from outside, not by agents that call other agents."""
        return self.filter(parent_task=None)

    def of_family(self, family: uuid.UUID) -> ContextQuerySet:
        """The sessions with this `family_key`, the oldest first."""
        return self.annotate(family=FAMILY).filter(family=family).order_by("created_at", "pk")


FAMILY = Coalesce("root", "id")
"""The key that a session shares with its owner's forks of it."""
MAX_TITLE = 200  # characters


class Context(models.Model):
    """One conversation: A2A's context, the client API's session."""

    class Sharing(models.TextChoices):
        PRIVATE = "private", "for its owner"
        WORKSPACE = "workspace", "for the members of its workspace"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    context_id = models.CharField(max_length=200, help_text="A2A contextId: the caller's own, or the primary key.")
    owner = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.CASCADE, db_index=False, related_name="contexts"
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="contexts")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="contexts")
    title = models.CharField(max_length=MAX_TITLE, blank=True)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="forks")
    forked_at = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Index of the last event shared with the parent."
    )
    fork_reason = models.CharField(max_length=40, blank=True)
    # A plain id: the family outlives its first session.
    root = models.UUIDField(null=True, blank=True, help_text="The first session of a fork's family.")
    # A plain id: a child's context must not look like a person's own when the parent is deleted.
    parent_task = models.UUIDField(null=True, blank=True, help_text="The task that started this session.")
    last_event = models.PositiveBigIntegerField(default=0, help_text="Index of the newest event.")
    head_hash = models.CharField(  # noqa: DJ001  # null: no event has a hash
        max_length=64, null=True, blank=True, editable=False, help_text="The newest event's hash. Not part of replay."
    )
    options = models.JSONField(default=dict, blank=True, help_text="Options of the agent in this session.")
    agent_version = models.PositiveIntegerField(
        null=True, blank=True, help_text="The number of the agent's version with which it began here, if it is known."
    )
    memory = models.JSONField(default=dict, blank=True, help_text="State of its agents. Not part of replay.")
    approved_tools = models.JSONField(
        default=list, blank=True, help_text="Tools that run here without asking again. Not part of replay."
    )
    is_watched = models.BooleanField(
        "watched", default=False, help_text="Whether listeners are called. Not part of replay."
    )
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    imported_at = models.DateTimeField(
        "imported", null=True, blank=True, help_text="When it was imported. Its other times are its conversation's."
    )
    archived_at = models.DateTimeField(null=True, blank=True, help_text="When its owner archived it.")
    is_shared = models.BooleanField(
        "shared", default=False, db_default=False, help_text="May the members of its workspace see it?"
    )
    # A plain id: the app that has projects may be left out, and a deleted project leaves its sessions alone.
    project = models.UUIDField(null=True, blank=True, help_text="The project that it is in.")
    is_temporary = models.BooleanField(
        "temporary", default=False, db_default=False, help_text="Does it neither use nor leave memory of its person?"
    )
    deleted_at = models.DateTimeField(null=True, blank=True, help_text="When it was deleted. Only this row is kept.")
    cold_file = models.CharField(
        max_length=200, blank=True, help_text="The file that holds its log and rows. Empty: not in cold storage."
    )
    cold_at = models.DateTimeField("cold since", null=True, blank=True)
    cold_messages = models.PositiveIntegerField(default=0, help_text="The number of messages, while in cold storage.")
    warmed_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was last restored, or could not be archived."
    )

    objects = ContextQuerySet.as_manager()

    class Meta:
        verbose_name = "session"
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "workspace", "context_id"],
                condition=models.Q(deleted_at=None),
                name="context_id_is_unique_for_its_owner",
            )
        ]
        indexes = [
            models.Index(
                fields=["owner", "-updated_at", "-id"],
                condition=models.Q(parent_task=None),
                name="listed_contexts_of_an_owner",
            ),
            models.Index("owner", FAMILY, name="families_of_an_owner"),
            models.Index(
                fields=["workspace", "-updated_at", "-id"], condition=models.Q(is_shared=True), name="shared_contexts"
            ),
            models.Index(
                fields=["parent_task"],
                condition=models.Q(parent_task__isnull=False),
                name="contexts_of_children",
            ),
            models.Index(
                fields=["project", "-updated_at", "-id"],
                condition=models.Q(project__isnull=False),
                name="contexts_of_a_project",
            ),
            models.Index(fields=["-updated_at", "-id"], name="contexts_by_update"),
            models.Index(
                fields=["imported_at"], condition=models.Q(imported_at__isnull=False), name="imported_contexts"
            ),
            models.Index(
                fields=["-updated_at", "-id"], condition=models.Q(deleted_at__isnull=False), name="deleted_contexts"
            ),
            models.Index(
                fields=["-updated_at", "-id"], condition=models.Q(cold_at__isnull=False), name="cold_contexts"
            ),
        ]

    def __str__(self) -> str:
        return self.title or str(self.pk)

    @property
    def recorded_at(self) -> datetime.datetime:
        """When its newest event was recorded: `updated_at`, or the import of a conversation that is older."""
        return max(self.updated_at, self.imported_at) if self.imported_at else self.updated_at

    @property
    def family_key(self) -> uuid.UUID:
        """What it shares with its owner's forks of it; a fork of somebody else's session begins a family."""
        return self.root or self.pk

    @property
    def sharing(self) -> Context.Sharing:
        return self.Sharing.WORKSPACE if self.is_shared else self.Sharing.PRIVATE

    def is_seen_by(self, principal: Principal) -> bool:
        """As `visible_to`, for a row that was read by its key; without the caller's choice of agents."""
        return is_seen(principal, self.owner_id, self.workspace_id, self.is_shared)

    def name_for(self, principal: Principal) -> str:
        """The `contextId` by which the caller continues it. Only the owner has names of their own for contexts."""
        return self.context_id if self.owner_id == principal.user_id else str(self.pk)


APPROVE_EVERYWHERE = "record.approve_task"
"""The permission of operators to decide about tool calls that need another person, in all workspaces."""


class TaskQuerySet(VisibleQuerySet["Task"]):
    not_found = TaskNotFound

    def visible_to(self, principal: Principal) -> TaskQuerySet:
        """The tasks that the caller may see: those that they began, and all of the sessions that they may see."""
        seen = models.Q(**principal.own()) | seen_by(principal, "context__")
        return principal.only_agents(self.filter(seen), "agent")

    def of(self, principal: Principal) -> TaskQuerySet:
        """The tasks that the caller began."""
        return principal.only_agents(self.filter(**principal.own()), "agent")

    def approvable_by(self, principal: Principal) -> TaskQuerySet:
        """Tasks about whose tool call `principal` may decide.

        These are one's own, and those that need two people or have no owner, if one may send messages in their
        workspace. Operators with the permission `record.approve_task` may decide about these in all workspaces.
        """
        if principal.user_id is None:
            return self.none()
        others = models.Q(slot__approvers__gt=1) | models.Q(owner=None)
        if not may_operate(principal, APPROVE_EVERYWHERE):
            here = principal.workspace_id if principal.can(Permission.SEND) else None
            others &= models.Q(workspace=here)
        asking = self.filter(state=TaskState.INPUT_REQUIRED, slot__has_key="approvers")
        return principal.only_agents(asking.filter(models.Q(owner=principal.user_id) | others), "agent")

    def unfinished(self) -> TaskQuerySet:
        return self.filter(state__any_of=UNFINISHED_STATES)


class Task(models.Model):
    """A unit of work in a context; it may span many turns."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    context = models.ForeignKey(Context, on_delete=models.CASCADE, db_index=False, related_name="tasks")
    owner = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.CASCADE, db_index=False, related_name="tasks"
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="tasks")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, related_name="tasks")
    state = models.CharField(max_length=20, choices=TaskState)
    status_message = models.JSONField(null=True, blank=True, help_text="A2A message of the current status.")
    slot = models.JSONField(null=True, blank=True, help_text="What the task asked for: name and JSON Schema.")
    references = models.JSONField(default=list, blank=True, help_text="Ids of the tasks that this one refines.")
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children")
    metadata = models.JSONField(default=dict, blank=True)
    first_event = models.PositiveBigIntegerField(help_text="Index of the event that opened it.")
    status_event = models.PositiveBigIntegerField(help_text="Index of the event that brought its state.")
    created_at = models.DateTimeField()
    status_at = models.DateTimeField()

    objects = TaskQuerySet.as_manager()

    class Meta:
        permissions = [("approve_task", "Can decide about tool calls in all workspaces")]
        indexes = [
            models.Index(fields=["owner", "-status_at", "-id"], name="tasks_of_an_owner_by_status"),
            models.Index(fields=["owner", "agent", "-status_at", "-id"], name="tasks_of_an_owner"),
            models.Index(fields=["owner", "agent", "state", "-status_at", "-id"], name="tasks_of_an_owner_by_state"),
            models.Index(fields=["context", "-status_at", "-id"], name="tasks_of_a_context_by_status"),
            models.Index(fields=["context", "created_at"], name="tasks_of_a_context"),
            models.Index(fields=["agent", "-created_at"], name="tasks_of_an_agent"),
            models.Index(fields=["-status_at", "-id"], name="tasks_by_status"),
            models.Index(
                fields=["parent"],
                condition=models.Q(parent__isnull=False, state__in=UNFINISHED_STATES),
                name="unfinished_children",
            ),
            models.Index(
                fields=["state", "-status_at"],
                condition=models.Q(state__in=UNFINISHED_STATES),
                name="unfinished_tasks",
            ),
            models.Index(
                fields=["state", "-status_at"], condition=models.Q(state__in=FAULTY_STATES), name="faulty_tasks"
            ),
            models.Index(
                fields=["owner", "-status_at"],
                condition=models.Q(parent=None, state__in=INTERRUPTED_STATES),
                name="tasks_that_wait",
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def is_finished(self) -> bool:
        return TaskState(self.state).is_terminal

    def is_seen_by(self, principal: Principal) -> bool:
        """As `visible_to`, for a row that was read with its context."""
        return principal.owns(self.owner_id, self.workspace_id) or self.context.is_seen_by(principal)


class Message(models.Model):
    """A message, at the index of its event."""

    class Role(models.TextChoices):
        USER = "user"
        AGENT = "agent"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    context = models.ForeignKey(Context, on_delete=models.CASCADE, db_index=False, related_name="messages")
    task = models.ForeignKey(
        Task, null=True, blank=True, on_delete=models.CASCADE, db_index=False, related_name="messages"
    )
    index = models.PositiveBigIntegerField()
    role = models.CharField(max_length=5, choices=Role)
    agent = models.ForeignKey(
        Agent,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="messages",
        help_text="The agent that wrote it. Empty: a person.",
    )
    # Without a constraint: what somebody said in another's session outlives their account.
    author = models.ForeignKey(
        User,
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
        help_text="The person who wrote it. Empty: an agent, or an anonymous caller.",
    )
    message_id = models.CharField(max_length=200)
    parts = models.JSONField(help_text="A2A 1.0 parts.")
    references = models.JSONField(default=list, blank=True, help_text="referenceTaskIds, as they were sent.")
    extensions = models.JSONField(default=list, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["index"]
        constraints = [models.UniqueConstraint(fields=["context", "index"], name="message_index_is_unique")]
        indexes = [
            models.Index(fields=["task", "index"], name="messages_of_a_task"),
            models.Index(fields=["-created_at", "-id"], name="messages_by_age"),
            models.Index(
                fields=["created_at"], condition=models.Q(task=None, role="agent"), name="answers_without_a_task"
            ),
        ]

    def __str__(self) -> str:
        return self.message_id

    def stored(self, context: Context) -> dict[str, Any]:
        """The message in A2A 1.0 JSON, with stored parts left as references to files."""
        shown = {
            "messageId": self.message_id,
            "contextId": context.context_id,
            "role": "ROLE_USER" if self.role == Message.Role.USER else "ROLE_AGENT",
            "parts": self.parts,
        }
        optional = {
            "taskId": str(self.task_id) if self.task_id else None,
            "metadata": self.metadata,
            "extensions": self.extensions,
            "referenceTaskIds": self.references,
        }
        return shown | {name: value for name, value in optional.items() if value}


class ArtifactQuerySet(models.QuerySet["Artifact"]):
    def delivered(self) -> ArtifactQuerySet:
        return self.filter(state=Artifact.State.DELIVERED)


class Artifact(models.Model):
    """A result of a task. Its parts are written when the task completes; until then they are events."""

    class State(models.TextChoices):
        PROVISIONAL = "provisional", "being made"
        DELIVERED = "delivered"
        DISCARDED = "discarded", "of a turn that failed, was canceled, or was started again"

    task = models.ForeignKey(Task, on_delete=models.CASCADE, db_index=False, related_name="artifacts")
    artifact_id = models.CharField(max_length=200)
    run = models.UUIDField(null=True, blank=True, help_text="The run that makes it.")
    state = models.CharField(max_length=12, choices=State)
    name = models.CharField(max_length=250, blank=True)
    description = models.TextField(blank=True)
    parts = models.JSONField(default=list)
    digest = models.CharField(max_length=64, blank=True, help_text="SHA-256 of the canonical JSON of the parts.")
    signature = models.JSONField(default=dict, blank=True, help_text="The agent's signature. Empty: none.")
    extensions = models.JSONField(default=list, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    first_event = models.PositiveBigIntegerField(help_text="Index of its first chunk.")
    created_at = models.DateTimeField()

    objects = ArtifactQuerySet.as_manager()

    until: int | None = None
    """Of an unfinished artifact (`unfinished`): the index of the event that ended it."""
    is_cut = False
    """Are only the first of its chunks read?"""
    is_answer = False
    """Was it streamed as the text of an answer?"""

    class Meta:
        ordering = ["first_event"]
        constraints = [
            models.UniqueConstraint(fields=["task", "artifact_id"], name="artifact_id_is_unique_in_its_task")
        ]
        indexes = [
            models.Index(fields=["artifact_id"], opclasses=["varchar_pattern_ops"], name="artifacts_by_their_id")
        ]

    def __str__(self) -> str:
        return self.name or self.artifact_id


AGENT_CHANGES = (EventType.AGENT_SWITCHED, EventType.FORK)
"""Types that are looked up in long logs, so they have an index."""


class Event(models.Model):
    """An entry of a context's log. Never changed: the database refuses it (`chain`)."""

    # Without a constraint: only the ledger writes events, with their context, and a check costs a quarter of an insert.
    context = models.ForeignKey(
        Context, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="events"
    )
    index = models.PositiveBigIntegerField()
    type = models.CharField(max_length=30, choices=EventType)
    # Plain ids: the log is written before its derived rows, and can be read without them.
    task = models.ForeignKey(
        Task,
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="events",
    )
    run = models.UUIDField(null=True, blank=True)
    artifact_id = models.CharField(max_length=200, blank=True, help_text="The artifact of a chunk.")
    payload = models.JSONField()
    at = models.DateTimeField()
    hash = models.CharField(  # noqa: DJ001  # null: an earlier version recorded it
        max_length=64, null=True, blank=True, help_text="SHA-256 of the event and of the hash before it."
    )

    class Meta:
        ordering = ["index"]
        constraints = [models.UniqueConstraint(fields=["context", "index"], name="event_index_is_unique")]
        indexes = [
            models.Index(fields=["task", "artifact_id", "index"], name="events_of_a_task"),
            models.Index(fields=["task", "-index"], condition=models.Q(type="feedback"), name="feedback_on_a_task"),
            models.Index(fields=["-id"], condition=models.Q(type="feedback"), name="feedback_by_age"),
            models.Index(fields=["at"], condition=models.Q(type="feedback"), name="feedback_by_time"),
            models.Index(
                fields=["context", "-index"], condition=models.Q(type__in=AGENT_CHANGES), name="turnings_of_a_log"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.index} {self.type}"

    @property
    def happened_at(self) -> datetime.datetime:
        """When it was recorded; of an imported event, its time in the other program."""
        dated = self.payload.get(DATED)
        return datetime.datetime.fromisoformat(dated) if dated else self.at

    @property
    def shown(self) -> dict[Hashable, Any]:
        """Its forms for streams, by kind, so that each is made once. Threads share it."""
        forms: dict[Hashable, Any] = self.__dict__.setdefault("_shown", {})
        return forms

    @property
    def parts(self) -> list[Any]:
        """The A2A parts of its message, artifact chunk, or page of a tool server."""
        holder: dict[str, Any] = next((found for name in PART_HOLDERS if (found := self.payload.get(name))), {})
        return list(holder.get("parts", ()))

    @property
    def answers(self) -> bool:
        """Is it an agent's message that neither ends nor interrupts a task?"""
        return self.type == EventType.AGENT_MESSAGE and "imported" not in self.payload

    @property
    def settles(self) -> bool:
        """Does it end or interrupt a task?"""
        return self.type == EventType.AGENT_STATUS and self.payload["state"] in SETTLED_STATES

    def hash_after(self, previous: str) -> str:
        """SHA-256 of its canonical JSON (RFC 8785), in hexadecimal. `previous`: the hash before it in the log, or "".

        The time is text in UTC with microseconds, as in `2026-01-31T09:30:00.000000+00:00`.
        """
        return digest_of(
            {
                "previous": previous,
                "index": self.index,
                "type": self.type,
                "task": str(self.task_id) if self.task_id else None,
                "run": str(self.run) if self.run else None,
                "artifact": self.artifact_id,
                "payload": self.payload,
                "at": self.at.astimezone(datetime.UTC).isoformat(timespec="microseconds"),
            }
        )


class FeedbackManager(models.Manager["Feedback"]):
    def get_queryset(self) -> models.QuerySet[Feedback]:
        return super().get_queryset().filter(type=EventType.FEEDBACK)


class Feedback(Event):
    """An event that rates a task; the newest counts."""

    objects: ClassVar[FeedbackManager] = FeedbackManager()

    class Meta:
        proxy = True
        verbose_name_plural = "feedback"

    @property
    def rating(self) -> int:
        """Stars, from 1 to 5."""
        return int(self.payload["rating"])

    @property
    def text(self) -> str:
        return str(self.payload.get("feedback", ""))


ENDLESS = models.BigIntegerField.MAX_BIGINT
"""`last` of a fork's own segment."""


class Segment(models.Model):
    """Events `first` to `last` of a fork's log, with their messages and tasks, are stored in `source`.

    A source stores them itself, even for a fork of a fork. A fork's last segment names the fork; other contexts have no
    segments.
    """

    context = models.ForeignKey(Context, on_delete=models.CASCADE, db_index=False, related_name="segments")
    # Deleting an owner deletes sources with their forks. A source alone is deleted after the hand-over to its forks.
    source = models.ForeignKey(Context, on_delete=models.RESTRICT, related_name="lent")
    first = models.PositiveBigIntegerField(help_text="Index of an event.")
    last = models.PositiveBigIntegerField(help_text="Index of an event.")

    class Meta:
        ordering = ["first"]
        constraints = [
            models.UniqueConstraint(fields=["context", "first"], name="segments_follow_each_other"),
            models.CheckConstraint(condition=models.Q(last__gte=models.F("first")), name="a_segment_has_events"),
        ]

    def __str__(self) -> str:
        return f"{self.first} to {self.last} of {self.source_id}"


class Blob(models.Model):
    """Content too large for a row, in file storage under its SHA-256; uses are counted per workspace."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, db_index=False, related_name="blobs")
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField(help_text="Bytes.")
    uses = models.PositiveIntegerField(default=0, help_text="The number of parts in this workspace that use it.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = "stored file"
        constraints = [models.UniqueConstraint(fields=["workspace", "sha256"], name="one_count_per_workspace")]

    def __str__(self) -> str:
        return self.sha256[:12]


class ColdKey(models.Model):
    """The session of a row in cold storage, for callers who have only the row's key."""

    context = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="cold_keys")
    kind = models.CharField(max_length=40, help_text="The model, such as `record.task`.")
    key = models.CharField(max_length=40)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "key"], name="a_row_is_in_one_cold_file")]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"
