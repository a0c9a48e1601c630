"""One append-only log of events per context, and the rows derived from it: only `ledger` writes them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db import models

from apps.accounts.models import User, Workspace
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record.events import EventType
from apps.record.lifecycle import INTERRUPTED, UNFINISHED, TaskState


class ContextQuerySet(models.QuerySet["Context"]):
    def visible_to(self, principal: Principal) -> ContextQuerySet:
        """A caller's own contexts; for an anonymous caller those of nobody, to be reached by id alone.

        Those that were cleared are gone for everybody.
        """
        return self.filter(owner_id=principal.user_id, deleted_at=None)

    def ever_visible_to(self, principal: Principal) -> ContextQuerySet:
        """A known caller's own contexts, with what is left of those that were cleared: to tell that they are gone."""
        return self.filter(owner_id=principal.user_id) if principal.is_known else self.none()

    def listed(self) -> ContextQuerySet:
        """Conversations that were begun from outside: not those in which agents work for other agents."""
        return self.filter(parent_task=None)


class Context(models.Model):
    """One conversation: A2A's context, the client API's session."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    context_id = models.CharField(max_length=200, help_text="A2A contextId: the caller's own, or the primary key.")
    owner = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.CASCADE, db_index=False, related_name="contexts"
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="contexts")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="contexts")
    title = models.CharField(max_length=200, blank=True)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="forks")
    forked_at = models.PositiveBigIntegerField(null=True, blank=True, help_text="Index of the last event taken over.")
    fork_reason = models.CharField(max_length=40, blank=True)
    # A plain id: what was called for does not become anybody's own conversation when the parent is deleted.
    parent_task = models.UUIDField(null=True, blank=True, help_text="The task that called for what is done here.")
    last_event = models.PositiveBigIntegerField(default=0, help_text="Index of the newest event.")
    options = models.JSONField(default=dict, blank=True, help_text="How its agent is set up here.")
    memory = models.JSONField(default=dict, blank=True, help_text="Kept by its agents. No part of replay.")
    is_watched = models.BooleanField("watched", default=False, help_text="Are listeners called? No part of replay.")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True, help_text="When its owner put it away.")
    deleted_at = models.DateTimeField(null=True, blank=True, help_text="When it was deleted: this row alone is left.")
    cold_file = models.CharField(
        max_length=200, blank=True, help_text="The file that holds its log and rows; empty: the tables do."
    )
    cold_at = models.DateTimeField("cold since", null=True, blank=True)
    cold_messages = models.PositiveIntegerField(default=0, help_text="In cold storage: how many messages it shows.")
    warmed_at = models.DateTimeField(
        null=True, blank=True, help_text="When it last came back from cold storage, or could not go there."
    )

    objects = ContextQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "context_id"],
                condition=models.Q(deleted_at=None),
                name="context_id_is_unique_within_its_owner",
            )
        ]
        indexes = [
            models.Index(
                fields=["owner", "-updated_at", "-id"],
                condition=models.Q(parent_task=None),
                name="listed_contexts_of_an_owner",
            ),
            models.Index(
                fields=["parent_task"],
                condition=models.Q(parent_task__isnull=False),
                name="contexts_of_children",
            ),
        ]

    def __str__(self) -> str:
        return self.title or str(self.pk)


class TaskQuerySet(models.QuerySet["Task"]):
    def visible_to(self, principal: Principal) -> TaskQuerySet:
        return self.filter(owner_id=principal.user_id)

    def unfinished(self) -> TaskQuerySet:
        return self.filter(state__in=UNFINISHED)


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

    shown: Shown | None = None
    """What is shown of it, where that was read along with it (`whole_tasks`)."""

    class Meta:
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
                condition=models.Q(parent__isnull=False, state__in=UNFINISHED),
                name="unfinished_children",
            ),
            models.Index(
                fields=["owner", "-status_at"],
                condition=models.Q(parent=None, state__in=INTERRUPTED),
                name="tasks_that_wait",
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def is_finished(self) -> bool:
        return TaskState(self.state).is_terminal


class Message(models.Model):
    """One turn of talk, at the index of the event that brought it."""

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
        help_text="Which agent wrote it; empty: the owner of the conversation.",
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
            models.Index(
                fields=["created_at"], condition=models.Q(task=None, role="agent"), name="answers_without_a_task"
            ),
        ]

    def __str__(self) -> str:
        return self.message_id


class ArtifactQuerySet(models.QuerySet["Artifact"]):
    def delivered(self) -> ArtifactQuerySet:
        """Those of completed tasks."""
        return self.filter(state=Artifact.State.DELIVERED)


class Artifact(models.Model):
    """A deliverable of a task. Its parts are written once, when the task completes; until then they are events."""

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
    signature = models.JSONField(default=dict, blank=True, help_text="By its agent, see `signatures`; empty: none.")
    extensions = models.JSONField(default=list, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    first_event = models.PositiveBigIntegerField(help_text="Index of its first chunk.")
    created_at = models.DateTimeField()

    objects = ArtifactQuerySet.as_manager()

    class Meta:
        ordering = ["first_event"]
        constraints = [
            models.UniqueConstraint(fields=["task", "artifact_id"], name="artifact_id_is_unique_in_its_task")
        ]

    def __str__(self) -> str:
        return self.name or self.artifact_id


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a task beside its row: the `length` newest messages, oldest first, and what was delivered."""

    length: int
    history: list[Message]
    artifacts: list[Artifact]


TURNINGS = (EventType.AGENT_SWITCHED, EventType.FORK)
"""What is looked for in a log however long it is: with whom it went on, and from where."""


class Event(models.Model):
    """One line of a context's log. Written once, never changed."""

    context = models.ForeignKey(Context, on_delete=models.CASCADE, db_index=False, related_name="events")
    index = models.PositiveBigIntegerField()
    type = models.CharField(max_length=30, choices=EventType)
    # Plain ids: a log is written before, and is read without, the rows that are derived from it.
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
    artifact_id = models.CharField(max_length=200, blank=True, help_text="Of a chunk: whose it is.")
    payload = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["index"]
        constraints = [models.UniqueConstraint(fields=["context", "index"], name="event_index_is_unique")]
        indexes = [
            models.Index(fields=["task", "artifact_id", "index"], name="events_of_a_task"),
            models.Index(fields=["task", "-index"], condition=models.Q(type="feedback"), name="feedback_on_a_task"),
            models.Index(fields=["context", "-index"], condition=models.Q(type__in=TURNINGS), name="turnings_of_a_log"),
        ]

    def __str__(self) -> str:
        return f"{self.index} {self.type}"

    @property
    def parts(self) -> list[Any]:
        """The A2A parts that it brings."""
        holder = self.payload.get("message") or self.payload.get("artifact") or {}
        return list(holder.get("parts", []))

    @property
    def settles(self) -> bool:
        """Is it a change of state that a waiting caller waits for?"""
        return self.type == EventType.AGENT_STATUS and TaskState(self.payload["state"]).is_settled


class FeedbackManager(models.Manager["Feedback"]):
    def get_queryset(self) -> models.QuerySet[Feedback]:
        return super().get_queryset().filter(type=EventType.FEEDBACK)


class Feedback(Event):
    """A line of the log by which somebody says what a task was worth; of a task the newest counts."""

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
