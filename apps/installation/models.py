"""Rows that operators set while Parley runs: model connections, private addresses, whether work starts, first steps."""

from __future__ import annotations

import re
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models, transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.installation.model_providers import Provider
from parley import outbound
from parley.outbound import targets

JSON = dict[str, Any]

KEY = re.compile(r"[\x21-\x7e]*\Z")  # it is sent in a header
CONNECTION_SLUG = r"[a-z][a-z0-9-]*"  # digits first would look like a version in `model@20260101`


def check_base_url(url: str) -> None:
    """Raises ValidationError unless it is a URL that `outbound` reads. It may be private."""
    try:
        targets.parse_url(url)
    except outbound.Forbidden as problem:
        raise ValidationError(str(problem)) from None
    if "?" in url or "#" in url:
        raise ValidationError("Leave out what follows ? or #. A base URL usually ends with /v1.")


def check_key(key: str) -> None:
    if not KEY.match(key):
        raise ValidationError("A key has only visible ASCII characters, without spaces. Copy it once more.")


class ModelConnection(models.Model):
    """An endpoint with OpenAI's chat completions API, which many providers have.

    `offers` describes its models, each as {"name", "input_price", "output_price", "is_choice"}; a price is per million
    tokens, or null. `found` has the names that the endpoint listed last.
    """

    name = models.CharField(max_length=80, unique=True)
    slug = models.CharField(
        "short name",
        max_length=40,
        unique=True,
        validators=[
            RegexValidator(rf"^{CONNECTION_SLUG}\Z", "Use lower-case letters, digits and hyphens, with a letter first.")
        ],
        help_text="Agents name a model of this connection as MODEL@SHORT-NAME.",
    )
    provider = models.CharField(max_length=12, choices=Provider, default=Provider.OTHER)
    base_url = models.CharField(
        "base URL",
        max_length=500,
        validators=[check_base_url],
        help_text="The address of the API without /chat/completions. It usually ends with /v1.",
    )
    api_key = EncryptedTextField("API key", blank=True, validators=[check_key])
    model = models.CharField("default model", max_length=200, help_text="For agents that name no model.")
    offers = models.JSONField("models and prices", default=list, blank=True)
    found = models.JSONField(default=list, blank=True, editable=False)
    is_default = models.BooleanField(
        "default connection", default=False, help_text="Agents that name no connection use this one."
    )
    names_sessions = models.BooleanField(
        "name sessions",
        default=True,
        db_default=True,
        help_text="Of the default connection: its default model reads a session's first two messages and names it.",
    )
    added_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    checked_at = models.DateTimeField("tested", null=True, editable=False)
    problem = models.TextField(blank=True, editable=False, help_text="Why the last test failed, for operators.")

    class Meta:
        ordering = ["-is_default", "name"]
        verbose_name = "model connection"
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=models.Q(is_default=True), name="one_default_connection"
            )
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        """The first connection, and one that is made the default, is the only default."""
        with transaction.atomic():
            others = ModelConnection.objects.exclude(pk=self.pk)
            self.base_url = self.base_url.rstrip("/")
            if self.is_default:
                others.filter(is_default=True).update(is_default=False)
            elif not others.filter(is_default=True).exists():
                self.is_default = True
            super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        """Without the default connection, the oldest becomes it."""
        with transaction.atomic():
            gone = super().delete(*args, **kwargs)
            oldest = ModelConnection.objects.order_by("pk").first()
            if oldest and not ModelConnection.objects.filter(is_default=True).exists():
                oldest.save()
        return gone


class SharedToolServer(models.Model):
    """A tool server (MCP) that people may give to the agents that they make."""

    name = models.CharField(max_length=80, unique=True)
    description = models.CharField(max_length=200, blank=True, help_text="What its tools do, for people who choose it.")
    url = models.CharField("URL", max_length=2000, unique=True, validators=[check_base_url])
    header = models.CharField(
        max_length=100,
        default="Authorization",
        validators=[RegexValidator(r"^[A-Za-z0-9-]+\Z", "Write the name of a header, such as Authorization.")],
    )
    secret = EncryptedTextField(blank=True, help_text="The header's value, for the agents of everybody.")

    class Meta:
        ordering = ["name"]
        verbose_name = "tool server"

    def __str__(self) -> str:
        return self.name


MIN_PREFIX = {4: 8, 6: 7}  # a larger network is most of the internet


def check_entry(entry: str) -> None:
    """Raises ValidationError unless it is a host, host:port or network that may be allowed (see `outbound`)."""
    if "," in entry or entry != entry.strip():
        raise ValidationError("Write one address, host or network.")
    try:
        allowed = outbound.Allowed.read([entry])
    except ValueError:
        raise ValidationError(
            "Write a host, host:port or network, such as models.internal, 10.1.2.3:8080 or 10.0.0.0/8."
        ) from None
    if allowed.opens_metadata:
        raise ValidationError(targets.NEVER_OPEN)
    for network in allowed.networks:
        if network.prefixlen < MIN_PREFIX[network.version]:
            raise ValidationError(f"This network is too large. Write at most a /{MIN_PREFIX[network.version]}.")


class NetworkAllowance(models.Model):
    """A private host or network that Parley may call, besides those in `OUTBOUND_ALLOW`."""

    entry = models.CharField(
        "host or network",
        max_length=260,
        unique=True,
        validators=[check_entry],
        help_text="Such as models.internal, 10.1.2.3:8080 (this port only) or 10.0.0.0/8.",
    )
    reason = models.CharField(max_length=200, help_text="What is called there, for other operators.")
    expires_at = models.DateTimeField("expires", null=True, blank=True)
    added_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["entry"]
        verbose_name = "private address"
        verbose_name_plural = "private addresses"

    def __str__(self) -> str:
        return self.entry

    @property
    def is_active(self) -> bool:
        return self.expires_at is None or self.expires_at > timezone.now()


class Activity(models.TextChoices):
    """Whether an agent, or the whole installation, starts work and accepts new tasks.

    Paused: it accepts messages, and starts nothing. Draining: it refuses new tasks, and works off what it has.
    """

    ACTIVE = "active"
    PAUSED = "paused"
    DRAINING = "draining"


class Operation(models.Model):
    """The one row about all agents. Without it, the installation is active."""

    ONLY = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    activity = models.CharField(max_length=10, choices=Activity, default=Activity.ACTIVE)
    changed_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False)
    changed_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name_plural = "operation"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_row_about_all_agents")]

    def __str__(self) -> str:
        return "all agents"


class DismissedSteps(models.Model):
    """A person who needs no list of first steps any more."""

    person = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "dismissed steps"

    def __str__(self) -> str:
        return str(self.person)
