"""Folders of agents, each time one is deployed, and the secrets that agents' processes get."""

from __future__ import annotations

import datetime
import hashlib
import uuid
from typing import Any

from django.core.validators import RegexValidator
from django.db import models
from django.utils import timezone

from apps.accounts.models import User, may_operate
from apps.accounts.principals import Principal
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.accounts.visibility import VisibleQuerySet
from apps.agents.models import SLUG_VALIDATORS, Agent
from parley.work import Work, WorkQuerySet

DEPLOY, SEE_DEPLOYMENTS = "deployments.add_deployment", "deployments.view_deployment"
SEE_SECRETS, SET_SECRETS, REMOVE_SECRETS = (f"deployments.{one}_agentsecret" for one in ("view", "add", "delete"))
"""The rights of operators, as admin knows them."""


class Folder(models.Model):
    """An agent's folder, stored for each machine that runs agents. Versions and deployments name it by its digest."""

    digest = models.CharField(primary_key=True, max_length=64, editable=False, help_text="SHA-256 of its files.")
    archive = models.BinaryField(help_text="A ZIP file.")
    used_at = models.DateTimeField(default=timezone.now, editable=False, help_text="When it was deployed last.")

    def __str__(self) -> str:
        return self.digest[:12]


class DeploymentQuerySet(  # type: ignore[override]  # `as_manager` of two
    VisibleQuerySet["Deployment"], WorkQuerySet["Deployment"]
):
    def visible_to(self, principal: Principal) -> DeploymentQuerySet:
        """Operators see all who may see them in admin, of the slugs that their credential reaches."""
        if not may_operate(principal, SEE_DEPLOYMENTS):
            return self.none()
        return self if principal.agents is None else self.filter(slug__in=principal.agents)

    def unfinished(self) -> DeploymentQuerySet:
        return self.filter(state__in=(Deployment.State.WAITING, Deployment.State.WORKING))

    def due(self, now: datetime.datetime | None = None) -> DeploymentQuerySet:
        return super().due(now).order_by("created_at")


ACCESS = [(one.value, one.label) for one in (Agent.Access.PUBLIC, Agent.Access.AUTHENTICATED, Agent.Access.GROUPS)]
"""Who may use an agent that nobody owns."""


class Deployment(Work):
    """A folder that becomes an agent, or an agent's newest version."""

    class State(models.TextChoices):
        WAITING = "waiting", "waits for a worker"
        WORKING = "working", "its environment is made"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.CharField(
        max_length=63,
        validators=SLUG_VALIDATORS,
        help_text="The agent's name in addresses. If it exists, this becomes its newest version.",
    )
    digest = models.CharField(max_length=64, editable=False, help_text="Of its folder.")
    size = models.PositiveIntegerField(editable=False, help_text="Of the packed folder, in bytes.")
    files = models.PositiveIntegerField(editable=False, help_text="How many the folder has.")
    access = models.CharField(
        max_length=20,
        choices=ACCESS,
        blank=True,
        help_text="Who may use it. Empty: as its agent.yaml says, or as it was.",
    )
    as_candidate = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Whether a new version of an agent that exists is not current yet, so that a rollout can try it.",
    )
    state = models.CharField(max_length=10, choices=State, default=State.WAITING, editable=False)
    progress = models.TextField(blank=True, editable=False, help_text="What was done, a line each.")
    problem = models.TextField(blank=True, editable=False, help_text="Why it failed. Empty if it did not.")
    log = models.TextField(blank=True, editable=False, help_text="The end of what its setup and its process printed.")
    secrets = EncryptedTextField(null=True, help_text="What its process gets once it is deployed, as JSON; then null.")
    agent = models.ForeignKey(Agent, null=True, on_delete=models.SET_NULL, related_name="deployments", editable=False)
    version = models.PositiveIntegerField(null=True, editable=False, help_text="The number of the agent's version.")
    author = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    finished_at = models.DateTimeField(null=True, editable=False)

    objects = DeploymentQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        verbose_name_plural = "agents' folders"

    def __str__(self) -> str:
        return f"{self.slug} {self.digest[:12]}"


class AgentSecretQuerySet(VisibleQuerySet["AgentSecret"]):
    key = "name"

    def visible_to(self, principal: Principal) -> AgentSecretQuerySet:
        """Their names: operators see all who may see them in admin, of the agents that their credential reaches."""
        return principal.only_agents(self, "agent") if may_operate(principal, SEE_SECRETS) else self.none()


class AgentSecret(models.Model):
    """A secret that an agent's process finds in its environment, if its `agent.yaml` names it."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(
        max_length=100, validators=[RegexValidator(r"^[A-Z][A-Z0-9_]*\Z", "Write it like OPENAI_API_KEY.")]
    )
    value = EncryptedTextField(blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = AgentSecretQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        verbose_name = "secret of an agent"
        verbose_name_plural = "secrets of agents"
        constraints = [models.UniqueConstraint(fields=["agent", "name"], name="one_secret_of_an_agent_per_name")]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **options: Any) -> None:
        """Also tells the processes that call the agent, which see that it changed."""
        super().save(*args, **options)
        Agent.objects.filter(pk=self.agent_id).update(updated_at=timezone.now())

    def delete(self, *args: Any, **options: Any) -> Any:
        """As `save`."""
        Agent.objects.filter(pk=self.agent_id).update(updated_at=timezone.now())
        return super().delete(*args, **options)


def fingerprint(*parts: str) -> str:
    """A short digest of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
