"""The record: one append-only log of events per context, and the rows derived from it.

Only `ledger` writes events and derived rows (`Context`, `Message`, `Task`, `Artifact`); `Run` and `Accepted` are
execution state and no part of replay.

A foreign key that is the beginning of another index has none of its own (`db_index=False`): each costs every event.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models
from django.utils import timezone

from apps.accounts.models import User, Workspace
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations.events import EventType
from apps.conversations.lifecycle import UNFINISHED, TaskState


class ContextQuerySet(models.QuerySet["Context"]):
    def visible_to(self, principal: Principal) -> ContextQuerySet:
        """A caller's own contexts; for an anonymous caller those of nobody, to be reached by id alone.

        Those that were cleared are gone for everybody.
        """
        return self.filter(owner_id=principal.user_id, deleted_at=None)

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
    memory = models.JSONField(default=dict, blank=True, help_text="Kept by its agents. No part of replay.")
    is_watched = models.BooleanField("watched", default=False, help_text="Are listeners called? No part of replay.")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True, help_text="When it was cleared: its log alone is left.")

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
    created_at = models.DateTimeField()
    status_at = models.DateTimeField()

    objects = TaskQuerySet.as_manager()

    class Meta:
        indexes = [
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


class RunQuerySet(models.QuerySet["Run"]):
    def unfinished(self) -> RunQuerySet:
        return self.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING))


class Run(models.Model):
    """One turn of a task being executed: who works on it and until when. Execution state, no part of replay."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELED = "canceled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, db_index=False, related_name="runs")
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="runs")
    turn = models.PositiveIntegerField(help_text="1 for the task's first message.")
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    attempt = models.PositiveSmallIntegerField(default=0, help_text="Counted before the turn is executed.")
    fence = models.PositiveIntegerField(default=0, help_text="Grows with every claim; an older number is void.")
    worker = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    interrupted = models.BooleanField(default=False, help_text="A newer message wants this turn to stop.")
    slot = models.JSONField(null=True, blank=True, help_text="The question that this turn answers.")
    resumed = models.BooleanField(default=False, help_text="It has no message of its own, but that of the turn before.")
    memory = models.JSONField(default=dict, blank=True)
    input = models.JSONField(default=dict, blank=True, help_text="Snapshot of what the turn was given.")
    input_hash = models.CharField(max_length=64, blank=True)
    usage = models.JSONField(default=dict, blank=True)
    error = models.JSONField(null=True, blank=True)
    notes = models.JSONField(default=list, blank=True, help_text="What came too late, and from whom.")
    remote = models.JSONField(default=dict, blank=True, help_text="A remote agent's ids.")
    queued_at = models.DateTimeField(default=timezone.now)
    published_at = models.DateTimeField(null=True, blank=True, help_text="When its wake-up was last sent by the sweep.")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["task", "turn"], name="one_run_per_turn"),
            models.UniqueConstraint(
                fields=["task"],
                condition=models.Q(state__in=["queued", "running"]),
                name="one_unfinished_run_per_task",
            ),
        ]
        indexes = [
            models.Index(
                fields=["state", "lease_until"],
                condition=models.Q(state__in=["queued", "running"]),
                name="unfinished_runs",
            ),
            models.Index(fields=["-queued_at", "-id"], name="runs_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}, turn {self.turn}"

    @property
    def is_first(self) -> bool:
        """Nothing was done for the task before this claim; a run that was given back counts an attempt less."""
        return self.turn == 1 and self.fence <= 1


class Suspension(models.Model):
    """A task that asks what a child of it asks, until somebody answers. Execution state, no part of replay."""

    task = models.OneToOneField(Task, on_delete=models.CASCADE, related_name="suspension")
    child = models.ForeignKey(
        Task, null=True, on_delete=models.SET_NULL, related_name="suspends", help_text="None: it was cleared."
    )
    asked_at = models.DateTimeField(help_text="The time of the child's status that is the question.")

    def __str__(self) -> str:
        return f"{self.task_id} waits for {self.child_id}"


class Accepted(models.Model):
    """Idempotency: what a known sender's message led to. A table of its own, so that forks may copy messages."""

    sender = models.CharField(max_length=60)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    message_id = models.CharField(max_length=200)
    body_hash = models.CharField(max_length=64)
    task = models.ForeignKey(Task, null=True, on_delete=models.CASCADE, related_name="+")
    answer = models.ForeignKey(Message, null=True, on_delete=models.CASCADE, related_name="+")
    claimed_until = models.DateTimeField(null=True, help_text="Until when somebody works on an answer without a task.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "accepted messages"
        constraints = [
            models.UniqueConstraint(fields=["sender", "agent", "message_id"], name="a_message_is_accepted_once")
        ]

    def __str__(self) -> str:
        return self.message_id


class Blob(models.Model):
    """Content too large for a row: kept in file storage under its SHA-256, counted per workspace."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, db_index=False, related_name="blobs")
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField(help_text="Bytes.")
    uses = models.PositiveIntegerField(default=0, help_text="Parts of this workspace that name it.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "sha256"], name="one_count_per_workspace")]

    def __str__(self) -> str:
        return self.sha256[:12]
