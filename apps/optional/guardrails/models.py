"""Guardrails, and what they decided."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar, Self

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator, MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone

from apps.accounts.models import Workspace
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet
from apps.optional.guardrails.finding import CATEGORIES, check_patterns, region_is_known

MAX_PATTERNS = 20_000  # characters
MAX_QUESTION = 500  # characters
MOST_AGENTS = 100
MOST_SECONDS = 30


def valid_patterns(text: str) -> None:
    if problem := check_patterns(text):
        raise ValidationError(problem)


def valid_categories(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(one, str) and one in CATEGORIES for one in value):
        raise ValidationError(f"Choose from {', '.join(CATEGORIES)}.")


def valid_agents(value: Any) -> None:
    if not isinstance(value, list) or len(value) > MOST_AGENTS or not all(isinstance(one, str) for one in value):
        raise ValidationError(f"Send a list of at most {MOST_AGENTS} names of agents, such as echo.")


def valid_region(value: str) -> None:
    if not region_is_known(value):
        raise ValidationError("Write a country's two letters, such as DE.")


class WorkspaceQuerySet[M: models.Model](VisibleQuerySet[M]):
    """`path` leads to the guardrail."""

    path: ClassVar[str] = ""

    def visible_to(self, principal: Principal) -> Self:
        """Managers see all of their workspace, others those that they made there. A key for some agents sees none."""
        if not principal.is_known or principal.agents is not None:
            return self.none()
        here = self.filter(**{f"{self.path}workspace": principal.workspace_id})
        is_manager = principal.can(Permission.SETTINGS)
        return here if is_manager else here.filter(**{f"{self.path}owner": principal.user_id})


class GuardrailQuerySet(WorkspaceQuerySet["Guardrail"]):
    pass


class Guardrail(models.Model):
    """A check on what goes to agents or comes from them, and what is done if it finds something."""

    class Direction(models.TextChoices):
        IN = "in", "what goes to agents"
        OUT = "out", "what agents say"
        BOTH = "both", "both"

    class Check(models.TextChoices):
        PATTERNS = "patterns", "words and patterns"
        PERSONAL = "personal", "personal data and secrets"
        SIZE = "size", "size"
        MODEL = "model", "a question to a language model"

    class Action(models.TextChoices):
        BLOCK = "block", "stop it"
        REDACT = "redact", "hide what was found"
        ASK = "ask", "ask first"

    class Failing(models.TextChoices):
        BLOCK = "block", "stop it"
        PASS = "pass", "let it pass"

    class Decider(models.TextChoices):
        SENDER = "sender", "who asked the agent"
        MANAGERS = "managers", "a manager of the workspace"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", editable=False,
        help_text="Who made it.",
    )  # fmt: skip
    workspace = models.ForeignKey(
        Workspace, null=True, blank=True, on_delete=models.CASCADE, related_name="+", editable=False,
        help_text="Empty: the whole installation.",
    )  # fmt: skip
    name = models.CharField(max_length=100, help_text="People see it where it acts.")
    direction = models.CharField("checks", max_length=4, choices=Direction, default=Direction.BOTH)
    check_kind = models.CharField("looks for", max_length=8, choices=Check, default=Check.PERSONAL)
    action = models.CharField("then", max_length=6, choices=Action, default=Action.BLOCK)
    agents = models.JSONField(
        default=list, blank=True, validators=[valid_agents],
        help_text="Names of agents, such as echo. None: all agents of the workspace, and all that it talks to.",
    )  # fmt: skip
    words = models.TextField(
        blank=True, validators=[MaxLengthValidator(MAX_PATTERNS)],
        help_text="One word or phrase a line. Upper and lower case are the same.",
    )  # fmt: skip
    patterns = models.TextField(
        blank=True, validators=[MaxLengthValidator(MAX_PATTERNS), valid_patterns],
        help_text="One regular expression a line.",
    )  # fmt: skip
    label = models.CharField(
        "shown instead", max_length=40, blank=True, help_text="In place of what words and patterns found: [hidden]."
    )
    categories = models.JSONField("kinds", default=list, blank=True, validators=[valid_categories])
    region = models.CharField(
        "country of phone numbers", max_length=2, blank=True, validators=[valid_region],
        help_text="Two letters, such as DE. Without one, only numbers that begin with + or 00 are found.",
    )  # fmt: skip
    most_characters = models.PositiveIntegerField("characters at most", null=True, blank=True)
    most_files = models.PositiveIntegerField("files at most", null=True, blank=True)
    most_bytes = models.PositiveBigIntegerField("bytes at most", null=True, blank=True)
    question = models.TextField(
        blank=True, validators=[MaxLengthValidator(MAX_QUESTION)],
        help_text="A question about the text with the answer yes or no. Yes: it is found.",
    )  # fmt: skip
    model = models.CharField(
        "language model", max_length=200, blank=True, help_text="Empty: the default model of the installation."
    )
    seconds = models.PositiveSmallIntegerField(
        "seconds at most", default=5, validators=[MinValueValidator(1), MaxValueValidator(MOST_SECONDS)],
        help_text="How long the model may take.",
    )  # fmt: skip
    if_fails = models.CharField("if it cannot check", max_length=5, choices=Failing, default=Failing.BLOCK)
    decided_by = models.CharField(
        "who decides about an answer", max_length=8, choices=Decider, default=Decider.SENDER,
        help_text="Of what agents say, if it asks first.",
    )  # fmt: skip
    only_watch = models.BooleanField("only watch", default=False, help_text="Decisions are noted, and nothing is done.")
    is_on = models.BooleanField("on", default=True)
    order = models.PositiveSmallIntegerField(default=100, help_text="Lower numbers check first.")
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    updated_at = models.DateTimeField("changed", auto_now=True)

    objects = GuardrailQuerySet.as_manager()

    class Meta:
        ordering = ["order", "created_at"]
        indexes = [models.Index(fields=["workspace", "order"], name="guardrails_of_a_workspace")]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """What fits together; the same sentences in the API, on pages and in admin."""
        missing = self._missing()
        problems = dict([missing]) if missing else {}
        redacts = self.check_kind in (self.Check.PATTERNS, self.Check.PERSONAL)
        if self.action == self.Action.REDACT and not redacts:
            problems["action"] = "Only words, patterns and personal data can be hidden. Stop it, or ask first."
        if problems:
            raise ValidationError(problems)

    def _missing(self) -> tuple[str, str] | None:
        """The field that must be filled in, and the sentence for it."""
        sizes = (self.most_characters, self.most_files, self.most_bytes)
        match self.check_kind:
            case self.Check.PATTERNS if not (self.words.strip() or self.patterns.strip()):
                return "words", "Write words or patterns, each on a line."
            case self.Check.PERSONAL if not self.categories:
                return "categories", "Choose at least one kind."
            case self.Check.SIZE if all(one is None for one in sizes):
                return "most_characters", "Give at least one limit."
            case self.Check.MODEL if not self.question.strip():
                return "question", "Write a question that is answered with yes or no."
        return None


DIRECTIONS = Guardrail.Direction
"""For the reference of the API: `Guardrail.Direction` would need a longer line in the settings."""


class RailDecisionQuerySet(WorkspaceQuerySet["RailDecision"]):
    path = "rail__"


class RailDecision(models.Model):
    """One decision of a guardrail. The session's log has the same as an event."""

    class Done(models.TextChoices):
        BLOCKED = "block", "stopped"
        REDACTED = "redact", "hidden"
        ASKED = "ask", "asked first"
        WATCHED = "watch", "only noted"
        FAILED = "fail", "could not check"

    rail = models.ForeignKey(
        Guardrail, db_constraint=False, on_delete=models.CASCADE, related_name="decisions",
        help_text="It may be gone when a turn that it checked ends.",
    )  # fmt: skip
    context = models.UUIDField("session", help_text="Its key.")
    task = models.UUIDField(null=True, help_text="Its key. Empty: it was answered with a message.")
    direction = models.CharField(max_length=4)
    done = models.CharField(max_length=6, choices=Done)
    count = models.PositiveIntegerField(help_text="How much was found.")
    ms = models.PositiveIntegerField("milliseconds", help_text="How long the check took.")
    at = models.DateTimeField(default=timezone.now)

    objects = RailDecisionQuerySet.as_manager()

    class Meta:
        verbose_name = "decision of a guardrail"
        verbose_name_plural = "decisions of guardrails"
        indexes = [
            models.Index(fields=["rail", "-at"], name="decisions_of_a_rail"),
            models.Index(fields=["context"], name="decisions_in_a_session"),
            models.Index(fields=["at"], name="decisions_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.get_done_display()} at {self.at:%Y-%m-%d %H:%M}"
