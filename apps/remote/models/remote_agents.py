"""Remote agents: where one's card is, who signed it, and what of it waits for an operator."""

from __future__ import annotations

import datetime
import random
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion

EVEN = (0.8, 1.2)  # refreshes are spread, so that agents that were registered together are not looked at together


class Label(models.TextChoices):
    """What is known of the signature on a card."""

    UNSIGNED = "unsigned", "unsigned"
    VERIFIED = "verified", "verified"
    UNVERIFIED = "unverified", "signed, unverified"


class RemoteAgentQuerySet(models.QuerySet["RemoteAgent"]):
    def due(self, at: datetime.datetime) -> RemoteAgentQuerySet:
        """Those whose card is to be looked at again, the longest overdue first."""
        return self.filter(refresh_at__lte=at, agent__is_enabled=True).exclude(card_url="").order_by("refresh_at")


class RemoteAgent(models.Model):
    """What is known of a remote agent besides what the registry says of every agent.

    Its approved card is the content of the agent's current version.
    """

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, related_name="remote")
    card_url = models.CharField("card URL", max_length=2048, blank=True, help_text="Empty: the card was pasted.")
    etag = models.CharField(max_length=200, blank=True, editable=False)
    last_modified = models.CharField(max_length=200, blank=True, editable=False)
    refreshed_at = models.DateTimeField(null=True, editable=False)
    refresh_at = models.DateTimeField(default=timezone.now, db_index=True, editable=False)
    card_error = models.TextField(blank=True, editable=False, help_text="Why the card could not be loaded again.")
    origin = models.CharField(
        max_length=300, editable=False, help_text="Where it is called; credentials go nowhere else."
    )
    signature = models.CharField(max_length=10, choices=Label, default=Label.UNSIGNED, editable=False)
    pinned_keys = models.JSONField(default=list, blank=True, editable=False, help_text="JSON Web Keys, as first seen.")
    proposed = models.ForeignKey(
        AgentVersion,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        editable=False,
        help_text="What waits for an operator's approval.",
    )
    declined = models.ForeignKey(
        AgentVersion,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        editable=False,
        help_text="What an operator did not want; it is not proposed again.",
    )
    history_messages = models.PositiveSmallIntegerField(
        default=10, help_text="How many messages of a session the agent is sent that it does not know."
    )
    registered_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False)

    objects = RemoteAgentQuerySet.as_manager()

    class Meta:
        ordering = ["agent__name"]
        verbose_name = "remote agent"

    def __str__(self) -> str:
        return str(self.agent)

    @property
    def card(self) -> dict[str, Any]:
        """The approved card."""
        version = self.agent.current_version
        return version.content["card"] if version else {}

    def note_fetched(self, etag: str, last_modified: str) -> None:
        """The card was loaded just now; it is saved by the caller."""
        self.etag, self.last_modified, self.card_error = etag, last_modified, ""
        self.refreshed_at = timezone.now()
        self.refresh_at = next_refresh()

    @property
    def waits(self) -> bool:
        """Does a change wait for an operator?"""
        return self.proposed_id is not None


def next_refresh() -> datetime.datetime:
    """When a card that was looked at now is to be looked at again."""
    seconds = settings.REMOTE_REFRESH_SECONDS * random.uniform(*EVEN)  # noqa: S311 nothing secret
    return timezone.now() + datetime.timedelta(seconds=seconds)
