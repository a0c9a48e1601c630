"""What people want agents to know about them, in a workspace: entries, instructions, and which agents may know."""

from __future__ import annotations

import uuid
from typing import ClassVar, Self

from django.conf import settings
from django.core.validators import MaxLengthValidator
from django.db import models
from django.utils import timezone

from apps.accounts.errors import NotFound
from apps.accounts.models import Workspace
from apps.accounts.principals import Principal
from apps.accounts.visibility import OwnedQuerySet, VisibleQuerySet
from apps.agents.models import Agent

MAX_TEXT = 500  # characters of an entry
MAX_INSTRUCTIONS = 4_000  # characters


class EntryNotFound(NotFound):
    """There is no such entry in your memory."""


class PersonalQuerySet[M: models.Model](OwnedQuerySet[M]):
    """Rows that a key for some agents does not see: memory is of all that a person's agents know."""

    def visible_to(self, principal: Principal) -> Self:
        return super().visible_to(principal) if principal.agents is None else self.none()


class EntryQuerySet(PersonalQuerySet["MemoryEntry"]):
    not_found = EntryNotFound


class MemoryEntry(models.Model):
    """One thing that a person's agents remember. Others never see it, operators included."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memory_entries", editable=False
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+", editable=False)
    text = models.TextField("what to remember", validators=[MaxLengthValidator(MAX_TEXT)])
    # A plain id, as in `record.Context`.
    project = models.UUIDField(
        null=True, blank=True, help_text="Only sessions of this project know it; without one, all sessions do."
    )
    is_on = models.BooleanField("used", default=True, editable=False, help_text="Whether agents are told.")
    agent = models.ForeignKey(
        Agent, null=True, on_delete=models.SET_NULL, related_name="+", editable=False,
        help_text="Who wrote the newest text; empty: the person.",
    )  # fmt: skip
    session = models.UUIDField(null=True, editable=False, help_text="The session that the newest text is from.")
    message_index = models.PositiveBigIntegerField(
        null=True, editable=False, help_text="The index of the person's message there."
    )
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    updated_at = models.DateTimeField("changed", default=timezone.now, editable=False)
    forgotten_at = models.DateTimeField(
        "forgotten", null=True, editable=False, help_text="When an agent forgot it. It is deleted 30 days later."
    )

    objects = EntryQuerySet.as_manager()

    class Meta:
        verbose_name = "memory entry"
        verbose_name_plural = "memory"
        indexes = [models.Index(fields=["owner", "workspace", "-updated_at"], name="memory_of_a_person")]

    def __str__(self) -> str:
        return self.text if len(self.text) <= 80 else f"{self.text[:79]}…"


class TextQuerySet(PersonalQuerySet["MemoryText"]):
    path: ClassVar[str] = "entry__"


class MemoryText(models.Model):
    """A text that an entry had or has, from a moment on: sessions that continue the past know the past's."""

    entry = models.ForeignKey(MemoryEntry, on_delete=models.CASCADE, related_name="texts")
    text = models.TextField()
    digest = models.CharField(max_length=64, help_text="SHA-256 of the text, in hexadecimal.")
    agent = models.ForeignKey(
        Agent, null=True, on_delete=models.SET_NULL, related_name="+", help_text="Who wrote it; empty: the person."
    )
    session = models.UUIDField(null=True, help_text="Where the agent wrote it.")
    message_index = models.PositiveBigIntegerField(null=True, help_text="The index of the person's message there.")
    at = models.DateTimeField(default=timezone.now)

    objects = TextQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["entry", "-at"], name="texts_of_a_memory")]

    def __str__(self) -> str:
        return f"{self.entry_id} from {self.at:%Y-%m-%d %H:%M}"


class PersonalInstructionsQuerySet(PersonalQuerySet["PersonalInstructions"]):
    pass


class PersonalInstructions(models.Model):
    """What a person says to all agents, and whether their agents know and remember anything at all."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="personal_instructions", editable=False
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+", editable=False)
    text = models.TextField(
        "instructions", blank=True, validators=[MaxLengthValidator(MAX_INSTRUCTIONS)],
        help_text="What agents should know about you, and how they should answer.",
    )  # fmt: skip
    digest = models.CharField(max_length=64, blank=True, editable=False)
    is_on = models.BooleanField("use these instructions", default=True)
    has_memory = models.BooleanField(
        "use memory", default=True, help_text="Off: agents are told nothing about you, and remember nothing."
    )
    updated_at = models.DateTimeField("changed", auto_now=True)

    objects = PersonalInstructionsQuerySet.as_manager()

    class Meta:
        verbose_name = verbose_name_plural = "personal instructions"
        constraints = [models.UniqueConstraint(fields=["owner", "workspace"], name="instructions_of_a_person")]

    def __str__(self) -> str:
        return f"of {self.owner}"


class AgentMemoryQuerySet(VisibleQuerySet["AgentMemory"]):
    def visible_to(self, principal: Principal) -> AgentMemoryQuerySet:
        """What holds for the caller: their own choices, and operators'."""
        own = models.Q(owner=None) | models.Q(owner=principal.user_id)
        return self.filter(own) if principal.is_known else self.none()


class AgentMemory(models.Model):
    """What an agent may do with people's memory: as operators say for all, or as a person says for theirs."""

    class Uses(models.TextChoices):
        NONE = "none", "nothing"
        READ = "read", "read"
        WRITE = "write", "read and change"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="memory_rights")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="+", editable=False,
        help_text="Whose memory; empty: everybody's who says nothing else.",
    )  # fmt: skip
    uses = models.CharField("may", max_length=5, choices=Uses)

    objects = AgentMemoryQuerySet.as_manager()

    class Meta:
        verbose_name = "agent's right to memory"
        verbose_name_plural = "agents' rights to memory"
        constraints = [
            models.UniqueConstraint(
                fields=["agent"], condition=models.Q(owner=None), name="a_right_of_an_agent_for_all"
            ),
            models.UniqueConstraint(fields=["agent", "owner"], name="a_right_of_an_agent_for_a_person"),
        ]

    def __str__(self) -> str:
        return f"{self.agent}: {self.get_uses_display()}"
