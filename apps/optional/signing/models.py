"""Signatures that remote agents put on what they delivered, beside the record."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from django.db import models
from django.utils import timezone

from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet
from apps.agents.models import Agent
from apps.record.models import Task
from parley.work import Retried, RetriedQuerySet


class Verdict(StrEnum):
    """The result of verifying an artifact's signature. Trust only `GOOD`."""

    GOOD = "good"
    BROKEN = "broken"
    UNKNOWN_KEY = "unknown key"
    REVOKED = "revoked"
    MISSING = "missing"
    PENDING = "pending"
    """Of a remote agent, whose keys are still being fetched."""


class Vouch(models.TextChoices):
    """Where the key of a remote agent's signature was found."""

    DID = "did", "the agent's identity (DID document)"
    CARD = "card", "the key that signed the agent's card"
    KEY_SET = "key_set", "the key set of the agent's server"


class ForeignSignatureQuerySet(VisibleQuerySet["ForeignSignature"], RetriedQuerySet["ForeignSignature"]):  # type: ignore[override]  # `as_manager` of two
    def visible_to(self, principal: Principal) -> ForeignSignatureQuerySet:
        return self.filter(task__in=Task.objects.visible_to(principal).values("pk"))

    def unfinished(self) -> ForeignSignatureQuerySet:
        return self.filter(verdict=Verdict.PENDING, agent__isnull=False)


class ForeignSignature(Retried):
    """A remote agent's signature on an artifact, and what verifying it gave. Not part of replay."""

    # Not a foreign key: archived sessions have no task rows, and the verdict stays.
    task = models.UUIDField(help_text="The task here whose artifact it is.")
    artifact_id = models.CharField(max_length=200, help_text="As it is in the record.")
    agent = models.ForeignKey(Agent, null=True, on_delete=models.SET_NULL, related_name="+")
    claims = models.JSONField(help_text="What came with the artifact: agent, created, inputSnapshot, signature.")
    statement = models.TextField(blank=True, help_text="What must be signed (RFC 8785); erased once it is verified.")
    verdict = models.CharField(max_length=12, choices=[(one.value, one.value) for one in Verdict])
    reason = models.TextField(blank=True, help_text="Why it is not good.")
    key = models.JSONField(default=dict, help_text="The public key that made it, as a JSON Web Key.")
    vouched_by = models.CharField(max_length=10, choices=Vouch, blank=True)
    checked_at = models.DateTimeField(null=True)

    objects = ForeignSignatureQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "artifact_id"], name="one_foreign_signature_each")]
        indexes = [
            models.Index(fields=["next_try_at"], condition=models.Q(verdict="pending"), name="unverified_signatures")
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.artifact_id}"

    @property
    def signer(self) -> str:
        """The identity (DID) in whose name it is, as the agent says."""
        return str(self.claims.get("agent", ""))

    def conclude(self, verdict: Verdict, reason: str = "", *, key: dict[str, Any] | None = None, by: str = "") -> bool:
        """Keep the verdict; the statement, which has the content, goes. False if the row was lost."""
        found = {"verdict": verdict, "reason": reason, "key": key or {}, "vouched_by": by}
        return self.release(**found, statement="", checked_at=timezone.now())
