"""Examples, evaluations and their results."""

from __future__ import annotations

import datetime
from typing import ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models
from django.utils import timezone
from jsonschema import Draft202012Validator, SchemaError

from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion
from apps.record.content.json_schema import SchemaTooComplex, strict_violations
from parley.work import Retried, RetriedQuerySet, Work, WorkQuerySet


class Expectation(models.Model):
    """What is expected of an answer. All that is given must hold."""

    contains = models.TextField(blank=True, help_text="Each line must occur in the answer, in any case.")
    equals = models.JSONField(null=True, blank=True, help_text="The answer must be this JSON.")
    schema = models.JSONField(null=True, blank=True, help_text="The answer must be JSON that fits this JSON Schema.")
    judged_by = models.TextField(
        "judged by", blank=True, help_text="What the default language model must find true of the answer."
    )

    class Meta:
        abstract = True

    def clean(self) -> None:
        if self.schema is not None:
            try:
                Draft202012Validator.check_schema(self.schema)
                strict_violations(self.schema, None)
            except SchemaError as error:
                raise ValidationError({"schema": f"This is no JSON Schema: {error.message}"}) from None
            except SchemaTooComplex:
                raise ValidationError({"schema": "This schema cannot be checked. Simplify it."}) from None

    @property
    def lines(self) -> list[str]:
        return [line.strip() for line in self.contains.splitlines() if line.strip()]


class Example(Expectation):
    """A message, and what is expected of the answer."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="examples")
    text = models.TextField("message")
    is_active = models.BooleanField("active", default=True)
    source = models.UUIDField(null=True, blank=True, editable=False, help_text="The task that was rated.")
    created_by = models.ForeignKey(User, null=True, editable=False, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["agent", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "source"], condition=models.Q(source__isnull=False), name="one_example_of_a_task"
            )
        ]

    def __str__(self) -> str:
        return self.text if len(self.text) <= 60 else f"{self.text[:59]}…"


class EvaluationQuerySet(WorkQuerySet["Evaluation"]):
    def unfinished(self) -> EvaluationQuerySet:
        return self.filter(finished_at=None)

    def with_totals(self) -> EvaluationQuerySet:
        """Each with `passed`, `failed`, `all`, the mean `seconds` and the sum `cost` of its results."""
        counts = {
            state: models.Count("results", filter=models.Q(results__state=state))
            for state in (Result.State.PASSED.value, Result.State.FAILED.value)
        }
        return self.annotate(
            **counts,
            all=models.Count("results"),
            seconds=models.Avg("results__seconds"),
            cost=models.Sum("results__cost"),
        )


class Evaluation(Work):
    """One run of an agent's examples. It ends when all results are known."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="evaluations")
    version = models.ForeignKey(AgentVersion, null=True, on_delete=models.SET_NULL, related_name="+")
    started_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    started_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True, editable=False, db_column="taken_until")

    objects = EvaluationQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "version"],
                condition=models.Q(finished_at__isnull=True),
                name="one_evaluation_of_a_version_at_a_time",
            )
        ]
        indexes = [
            models.Index(fields=["id"], condition=models.Q(finished_at__isnull=True), name="evaluations_under_way")
        ]

    def __str__(self) -> str:
        return f"{self.agent}, {self.version_name}"

    @property
    def version_name(self) -> str:
        return f"version {self.version.number}" if self.version else "an unknown version"

    @property
    def previous(self) -> Evaluation | None:
        """The newest finished one before it, of another version if there is one."""
        earlier = Evaluation.objects.filter(agent=self.agent_id, finished_at__isnull=False, pk__lt=self.pk)
        earlier = earlier.select_related("version")
        return earlier.exclude(version=self.version_id).first() or earlier.first()


class Result(models.Model):
    """What an evaluation found for an example."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        PASSED = "passed", "passed"
        FAILED = "failed", "failed"

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="results")
    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="results")
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    task = models.UUIDField(null=True, help_text="Its task. The session may be gone.")
    answer = models.TextField(blank=True)
    problems = models.JSONField(default=list, help_text="Why it failed, a sentence each.")
    seconds = models.FloatField(null=True)
    cost = models.FloatField(null=True)

    class Meta:
        ordering = ["evaluation", "example"]
        constraints = [models.UniqueConstraint(fields=["evaluation", "example"], name="one_result_of_an_example")]

    def __str__(self) -> str:
        return f"{self.example}: {self.state}"


LONGEST = datetime.timedelta(hours=1)  # for one evaluation
LEASE = datetime.timedelta(minutes=2)  # of a job on an evaluation, longer than a judge may take


class Sampling(Expectation):
    """How many of an agent's real answers are checked, and what is expected of them."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, related_name="sampling")
    percent = models.PositiveSmallIntegerField(
        default=0, validators=[MaxValueValidator(100)], help_text="Of finished turns. 0: none."
    )
    owner = models.ForeignKey(
        User,
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Who switched it on last. Only answers in sessions that they may see are checked.",
    )
    chosen_until = models.DateTimeField(
        default=timezone.now, editable=False, help_text="Turns that ended before it were chosen from."
    )

    class Meta:
        ordering = ["agent"]
        verbose_name_plural = "samplings"

    def __str__(self) -> str:
        return f"{self.percent} % of {self.agent}"


class SampleQuerySet(RetriedQuerySet["Sample"]):
    def unfinished(self) -> SampleQuerySet:
        return self.filter(state=Result.State.WAITING)


class Sample(Retried):
    """A turn that was chosen to be checked. It is deleted with its session."""

    sampling = models.ForeignKey(Sampling, on_delete=models.CASCADE, related_name="samples")
    # Plain ids: no row may keep a session.
    context = models.UUIDField(help_text="Its session.")
    task = models.UUIDField()
    run = models.UUIDField(unique=True)
    version = models.PositiveIntegerField(null=True, help_text="The number of the agent's version.")
    state = models.CharField(max_length=8, choices=Result.State, default=Result.State.WAITING)
    problems = models.JSONField(default=list, help_text="Why it failed, a sentence each.")
    finished_at = models.DateTimeField(help_text="When the turn ended.")

    objects: ClassVar[SampleQuerySet] = SampleQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["-finished_at"]
        indexes = [
            models.Index(fields=["context"], name="samples_of_a_session"),
            models.Index(fields=["sampling", "finished_at"], name="samples_by_time"),
            models.Index(
                fields=["next_try_at"], condition=models.Q(state=Result.State.WAITING.value), name="samples_waiting"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task}: {self.state}"
