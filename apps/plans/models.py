"""Plan runs and their steps: execution state. Messages and results are in the record."""

from __future__ import annotations

import datetime
import uuid

from django.db import models
from django.utils import timezone

from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet
from apps.agents.models import Agent, AgentVersion
from apps.record.models import Task


class Plan(Agent):
    """The registry's view of an agent that is a plan."""

    class Meta:
        proxy = True


class PlanRunQuerySet(VisibleQuerySet["PlanRun"]):
    def visible_to(self, principal: Principal) -> PlanRunQuerySet:
        return principal.only_agents(self.filter(**principal.own("task__")), "task__agent")

    def unfinished(self) -> PlanRunQuerySet:
        return self.filter(finished_at=None)


class PlanRun(models.Model):
    """One execution of a plan. Its state is that of its task."""

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="plan_run")
    version = models.ForeignKey(AgentVersion, on_delete=models.PROTECT, related_name="+")
    inputs = models.JSONField(default=dict)
    continues = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="continued_by")
    begun_at_step = models.CharField(
        max_length=63, blank=True, help_text="Where it goes on from the run that it continues."
    )
    paused_at = models.DateTimeField(null=True, blank=True)
    advanced_at = models.DateTimeField(null=True, blank=True, help_text="When its steps were last looked at.")
    created_at = models.DateTimeField(default=timezone.now)
    traceparent = models.CharField(max_length=55, blank=True, help_text="Its span (W3C Trace Context).")
    told = models.CharField(max_length=300, blank=True, help_text="The progress that was told last.")
    told_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = PlanRunQuerySet.as_manager()

    class Meta:
        verbose_name = "run of a plan"
        verbose_name_plural = "runs of plans"
        indexes = [
            models.Index(fields=["advanced_at"], condition=models.Q(finished_at=None), name="plan_runs_that_go_on"),
            models.Index(
                fields=["finished_at"], condition=models.Q(finished_at__isnull=False), name="plan_runs_by_end"
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)

    @classmethod
    def of(cls, task: Task) -> PlanRun:
        """The run of a task; before a worker has begun it, a row that is not saved."""
        return getattr(task, "plan_run", None) or cls(task=task)

    @property
    def has_begun(self) -> bool:
        return not self._state.adding

    @property
    def version_number(self) -> int | None:
        return self.version.number if self.has_begun else None

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None and not self.task.is_finished

    @property
    def began_at(self) -> datetime.datetime | None:
        return self.created_at if self.has_begun else None

    @property
    def ended_at(self) -> datetime.datetime | None:
        """When its task ended. Tasks that it started may end later (`finished_at`)."""
        return self.task.status_at if self.task.is_finished else None


class StartKey(models.Model):
    """Ties a caller's messageId to the one plan that it starts (see `runs.claim_key`)."""

    sender = models.CharField(max_length=60)
    key = models.CharField(max_length=200)
    plan = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["sender", "key"], name="a_key_is_for_one_plan")]

    def __str__(self) -> str:
        return self.key


class GivenAnswer(models.Model):
    """An answer that a person gave to a step directly, until it is in the plan's log (see `person.record_answers`)."""

    run = models.ForeignKey(PlanRun, on_delete=models.CASCADE, related_name="given_answers")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+", help_text="The task that asked.")
    index = models.PositiveBigIntegerField(help_text="Of the answer in that task's log.")

    def __str__(self) -> str:
        return f"{self.task_id}, {self.index}"


class StepQuerySet(VisibleQuerySet["Step"]):
    def visible_to(self, principal: Principal) -> StepQuerySet:
        return principal.only_agents(self.filter(**principal.own("run__task__")), "run__task__agent")

    def open(self) -> StepQuerySet:
        return self.filter(state__in=Step.OPEN)

    def asking(self) -> StepQuerySet:
        """Steps that ask a person now."""
        return self.filter(state=Step.State.ASKING, run__finished_at=None).exclude(phase=Step.Phase.ANSWERING)


class Step(models.Model):
    """One step of a run; a fan-out has a row per item, a repetition one per round."""

    class State(models.TextChoices):
        WAITING = "waiting", "waits for others"
        STARTING = "starting", "is being given to its agent"
        RUNNING = "running"
        ASKING = "asking", "asks for something"
        ENDED = "ended", "its task has ended, which is to be looked at"
        DONE = "done"
        FAILED = "failed"
        SKIPPED = "skipped"
        CANCELED = "canceled"

    class Phase(models.TextChoices):
        WORK = "work", "its agent works"
        BEFORE = "before", "a person is asked whether it may begin"
        AFTER = "after", "a person is asked whether they agree to what it delivered"
        DECISION = "decision", "a person is asked how to go on after it failed"
        ANSWERING = "answering", "an agent answers what its agent asks"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(PlanRun, on_delete=models.CASCADE, db_index=False, related_name="steps")
    key = models.CharField(max_length=63)
    item = models.IntegerField(default=-1, help_text="Which element of a fan-out, from 0; -1: it is of none.")
    value = models.JSONField(null=True, blank=True, help_text="That element.")
    round = models.PositiveSmallIntegerField(default=1, help_text="Of a repetition, from 1.")
    attempt = models.PositiveSmallIntegerField(default=0, help_text="How often it was begun.")
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    phase = models.CharField(max_length=10, choices=Phase, default=Phase.WORK)
    agent = models.CharField(max_length=63, blank=True, help_text="The slug of who does it, once that is known.")
    message = models.JSONField(
        null=True, blank=True, help_text="What its agent is sent (A2A); kept so that it is sent once."
    )
    task = models.ForeignKey(
        Task,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="plan_steps",
        help_text="Of the newest attempt.",
    )
    consulted = models.ForeignKey(
        Task,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="plan_consultations",
        help_text="In another phase than work: of whoever is asked about it.",
    )
    answers = models.PositiveSmallIntegerField(default=0, help_text="How often an agent answered what it asked.")
    reused = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The step of an earlier run whose result is kept.",
    )
    why = models.CharField(max_length=500, blank=True, help_text="Why it failed, or was skipped, as a sentence.")
    started_at = models.DateTimeField(null=True, blank=True)
    asked_at = models.DateTimeField(null=True, blank=True, help_text="Since when it asks.")
    due_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Until when whoever begins it has it to themselves; then, when its attempt is cut off.",
    )
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = StepQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key", "item", "round"], name="one_row_for_each_step"),
        ]
        indexes = [
            models.Index(fields=["run", "state", "key", "phase", "agent"], name="steps_of_a_run"),
            models.Index(fields=["due_at"], condition=models.Q(state="running"), name="steps_with_a_deadline"),
        ]

    OPEN = (State.WAITING, State.STARTING, State.RUNNING, State.ASKING, State.ENDED)
    ACTIVE = (State.STARTING, State.RUNNING, State.ASKING)
    SETTLED = (State.DONE, State.SKIPPED)

    def __str__(self) -> str:
        return self.key

    @property
    def note(self) -> str:
        """Why it failed or was skipped, or where its result comes from."""
        return self.why or ("kept from an earlier run" if self.reused_id else "")

    @property
    def worked_at_by(self) -> uuid.UUID | None:
        """The task that the step waits for."""
        return self.task_id if self.phase == self.Phase.WORK else self.consulted_id
