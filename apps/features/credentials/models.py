"""Credentials that people gave to agents, and the links by which they are asked for them."""

from __future__ import annotations

import datetime
import hashlib
import uuid

from django.db import models
from django.utils import timezone

from agentkit import outcomes
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.encryption import EncryptedTextField
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record.models import Task
from db.sql import write_transaction


class AuthType(models.TextChoices):
    API_KEY = "api_key", "API key"
    BEARER = "bearer", "access token"
    BASIC = "basic", "name and password"


class CredentialQuerySet(models.QuerySet["Credential"]):
    def visible_to(self, principal: Principal) -> CredentialQuerySet:
        return self.filter(user_id=principal.user_id) if principal.user_id is not None else self.none()

    def usable(self) -> CredentialQuerySet:
        return self.filter(revoked_at=None)

    def of_task(self, task: Task) -> CredentialQuerySet:
        """The credentials that the task's owner gave its agent. An anonymous task has its own."""
        giver = {"user_id": task.owner_id} if task.owner_id is not None else {"task_id": task.pk}
        return self.filter(agent_id=task.agent_id, **giver)


class Credential(models.Model):
    """A person's secret for one service and one agent, encrypted in the database."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="credentials")
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.CASCADE, related_name="credentials")
    task = models.ForeignKey(
        Task,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="credentials",
        help_text="Of a task that is nobody's: what it was given is its own, and goes with its end.",
    )
    service = models.CharField(max_length=outcomes.MAX_SERVICE_LENGTH)
    auth_type = models.CharField("kind", max_length=10, choices=AuthType)
    username = EncryptedTextField(blank=True)
    secret = EncryptedTextField(blank=True, help_text="Empty once it was revoked.")
    given_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    given_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField("last used", null=True, blank=True)
    revoked_at = models.DateTimeField("revoked", null=True, blank=True)

    objects = CredentialQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user=None) | models.Q(task=None), name="a_credential_is_a_persons_or_a_tasks"
            ),
            models.UniqueConstraint(
                fields=["agent", "user", "service"],
                condition=models.Q(revoked_at=None),
                name="one_credential_of_a_person_per_service",
            ),
            models.UniqueConstraint(
                fields=["task", "service"],
                condition=models.Q(revoked_at=None),
                name="one_credential_of_a_task_per_service",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.service} for {self.agent_id}"

    def revoke(self, by: User | None = None) -> None:
        self.username = self.secret = ""
        self.revoked_at = timezone.now()
        with write_transaction():
            self.save(update_fields=["username", "secret", "revoked_at"])
            details = {"agent": self.agent.slug, "owner": self.user_id}
            subject = audit.Subject("credentials.credential", str(self.pk), self.service)
            audit.record(AuditAction.CREDENTIAL_REMOVED, actor=by, object=subject, details=details)


class CredentialRequest(models.Model):
    """A request for a credential, with a link that can be answered once. Only the SHA-256 of the link's token is
    stored.
    """

    class Answer(models.TextChoices):
        GIVEN = "given"
        DECLINED = "declined"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="credential_requests")
    service = models.CharField(max_length=outcomes.MAX_SERVICE_LENGTH)
    auth_type = models.CharField("kind", max_length=10, choices=AuthType)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    asked_at = models.DateTimeField("asked", help_text="The time of the task's status that it belongs to.")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField("expires")
    answer = models.CharField(max_length=10, choices=Answer, blank=True)
    answered_at = models.DateTimeField("answered", null=True, blank=True)
    answered_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        indexes = [models.Index(fields=["task", "created_at"], name="requests_of_a_task")]

    def __str__(self) -> str:
        return self.service

    @staticmethod
    def digest_of(token: str) -> str:
        return hashlib.sha256(token.encode()).hexdigest()

    def is_expired(self, now: datetime.datetime) -> bool:
        return self.expires_at <= now
