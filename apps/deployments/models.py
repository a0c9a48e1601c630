"""Folders of agents as they were deployed, and the secrets that their processes get."""

from __future__ import annotations

import hashlib

from django.core.validators import RegexValidator
from django.db import models
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.agents.models import Agent


class Deployment(models.Model):
    """An agent's folder, stored for each machine that runs agents. Versions of agents name it."""

    digest = models.CharField(primary_key=True, max_length=64, editable=False, help_text="SHA-256 of its files.")
    archive = models.BinaryField(help_text="A ZIP file.")
    size = models.PositiveIntegerField(editable=False, help_text="Of the ZIP file, in bytes.")
    files = models.PositiveIntegerField(editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.digest[:12]


class AgentSecret(models.Model):
    """A secret that an agent's process finds in its environment, if its `agent.yaml` names it."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(
        max_length=100, validators=[RegexValidator(r"^[A-Z][A-Z0-9_]*\Z", "Write it like OPENAI_API_KEY.")]
    )
    value = EncryptedTextField(blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        verbose_name = "secret of an agent"
        verbose_name_plural = "secrets of agents"
        constraints = [models.UniqueConstraint(fields=["agent", "name"], name="one_secret_of_an_agent_per_name")]

    def __str__(self) -> str:
        return self.name


def fingerprint(*parts: str) -> str:
    """A short digest of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
