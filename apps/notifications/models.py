"""Channels by which people are told of their sessions, and what is sent there.

A notification holds no text: that is read when it is sent, and only if its owner may still see it.
"""

from __future__ import annotations

import datetime
import uuid
from typing import ClassVar

from django.db import models
from django.utils import timezone

from apps.accounts.models import User, Workspace
from apps.accounts.principals import Principal
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.accounts.secrets.webhook_signatures import GRACE, new_secret
from apps.accounts.visibility import VisibleQuerySet
from apps.notifications.channel_types import channel_types
from apps.record.models import TaskState


class Kind(models.TextChoices):
    """What people are told of."""

    ENDED = "ended", "Work has ended"
    FAILED = "failed", "Work has failed"
    ASKS = "asks", "An agent asks you something"

    @classmethod
    def of(cls, state: TaskState) -> Kind | None:
        """What a task's new state is to its owner; None if nobody is told of it."""
        return KINDS.get(state)


KINDS = {
    TaskState.COMPLETED: Kind.ENDED,
    TaskState.FAILED: Kind.FAILED,
    TaskState.REJECTED: Kind.FAILED,
    TaskState.INPUT_REQUIRED: Kind.ASKS,
    TaskState.AUTH_REQUIRED: Kind.ASKS,
}


def every_kind() -> list[str]:
    return list(Kind.values)


class Signing(models.Model):
    """The secret that signs webhooks, and for a while the one before it."""

    secret = EncryptedTextField(blank=True)
    previous_secret = EncryptedTextField(blank=True)
    previous_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Until when the secret before the last rotation signs, too."
    )

    class Meta:
        abstract = True

    def rotate(self, now: datetime.datetime) -> str:
        """Give it a new secret, without saving; returns the secret.

        If it is given another within GRACE, the oldest, which the receiver still has, signs on.
        """
        if self.secret and (self.previous_until is None or self.previous_until <= now):
            self.previous_secret, self.previous_until = self.secret, now + GRACE
        self.secret = secret = new_secret()
        return secret

    def secrets_at(self, now: datetime.datetime) -> list[str]:
        """The newest first."""
        is_overlap = self.previous_secret and self.previous_until is not None and now < self.previous_until
        return [one for one in (self.secret, self.previous_secret if is_overlap else "") if one]


class WebhookSigning(Signing):
    """Signs the A2A webhooks of a person's tasks, once they have made a secret."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="webhook_signing")
    rotated_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name = "secret of A2A webhooks"

    def __str__(self) -> str:
        return f"of {self.user}"


class PushKey(models.Model):
    """The installation's VAPID key (RFC 8292), made once: browsers accept no other for their subscriptions."""

    private = EncryptedTextField(help_text="PEM.")
    public = models.CharField(max_length=100, help_text="An uncompressed P-256 point, in URL-safe base64.")

    def __str__(self) -> str:
        return self.public


def every_type() -> list[tuple[str, str]]:
    """Choices: how people are told."""
    return [*Channel.Type.choices, *((one.name, one.label) for one in channel_types().values())]


class ChannelQuerySet(VisibleQuerySet["Channel"]):
    def visible_to(self, principal: Principal) -> ChannelQuerySet:
        """A person's own; to a key, those that it made for its workspace. To one for some agents alone, none."""
        if not principal.is_known or principal.agents is not None:
            return self.none()
        own = self.filter(user=principal.user_id)
        return own.filter(workspace=principal.workspace_id) if principal.key else own


class Channel(Signing):
    """Where a person is told, and of what."""

    class Type(models.TextChoices):
        MAIL = "mail", "E-mail"
        PUSH = "push", "Browser"
        WEBHOOK = "webhook", "Webhook"

    RECOGNIZES_REPEATS = (Type.PUSH, Type.WEBHOOK)  # by an id

    class Digest(models.TextChoices):
        NOW = "now", "At once"
        QUARTER = "quarter", "Every 15 minutes"
        HOUR = "hour", "Every hour"
        DAY = "day", "Once a day, at 8:00"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="channels")
    workspace = models.ForeignKey(
        Workspace,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="The only one whose sessions it is told of; empty: all. A key's channels are of its workspace.",
    )
    type = models.CharField(max_length=20, choices=every_type)
    name = models.CharField(max_length=120, blank=True)
    url = EncryptedTextField(blank=True, help_text="Of a webhook, Slack, or a browser's push service.")
    push_keys = EncryptedTextField(blank=True, help_text="JSON with p256dh and auth.")
    url_hash = models.CharField(max_length=64, blank=True, editable=False, help_text="SHA-256, so that it is unique.")
    kinds = models.JSONField(default=every_kind, help_text="Of what it is told.")
    agents = models.JSONField(default=dict, blank=True, help_text="The same for some agents, by their keys.")
    digest = models.CharField(max_length=8, choices=Digest, default=Digest.NOW, help_text="When letters are sent.")
    questions_at_once = models.BooleanField(
        default=True, help_text="Whether questions do not wait for the next letter."
    )
    is_on = models.BooleanField("on", default=True)
    problem = models.CharField(max_length=300, blank=True, help_text="Why Parley switched it off. Empty if it did not.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = ChannelQuerySet.as_manager()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["user", "type", "url_hash"],
                condition=models.Q(type__in=["mail", "push"]),
                name="one_channel_for_each_address",
            )
        ]

    def __str__(self) -> str:
        return self.name or self.get_type_display()

    @property
    def is_for_people(self) -> bool:
        """Is it told only of what still matters after the wait?"""
        return self.type != self.Type.WEBHOOK

    @property
    def is_supported(self) -> bool:
        """Is the app of its type there?"""
        return self.type in dict(every_type())

    def wants(self, kind: Kind, agent: int) -> bool:
        """Is it told of this, of work by this agent?"""
        return kind in self.agents.get(str(agent), self.kinds)


class NotificationQuerySet(VisibleQuerySet["Notification"]):
    def visible_to(self, principal: Principal) -> NotificationQuerySet:
        return self.filter(channel__in=Channel.objects.visible_to(principal))

    def waiting(self) -> NotificationQuerySet:
        return self.filter(state=Notification.State.WAITING)


class Notification(models.Model):
    """One event for one channel."""

    class State(models.TextChoices):
        WAITING = "waiting"
        SENDING = "sending"
        SENT = "sent"
        SKIPPED = "skipped"
        FAILED = "failed", "given up"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="notifications")
    # Plain ids: a session that is deleted or moved to cold storage takes nothing with it, and its rows have no text.
    context = models.UUIDField("session")
    task = models.UUIDField()
    event_index = models.PositiveBigIntegerField(help_text="Of the event in the session's log.")
    kind = models.CharField(max_length=6, choices=Kind)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    reason = models.CharField(max_length=300, blank=True, help_text="Why it was not sent, or is not sent yet.")
    attempts = models.PositiveIntegerField(default=0)
    last_status = models.PositiveSmallIntegerField(null=True, blank=True, help_text="HTTP status of the last answer.")
    due_at = models.DateTimeField()
    claim = models.UUIDField(null=True, blank=True, help_text="Of the worker that sends it.")
    lease_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    queued_at = models.DateTimeField(default=timezone.now, help_text="Since when it is tried.")
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = NotificationQuerySet.as_manager()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["channel", "context", "event_index"], name="a_channel_is_told_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["channel", "-created_at", "-id"], name="notifications_of_a_channel"),
            models.Index(fields=["-created_at", "-id"], name="notifications_by_age"),
            models.Index(fields=["due_at"], condition=models.Q(state="waiting"), name="due_notifications"),
            models.Index(fields=["claim"], condition=models.Q(state="sending"), name="claimed_notifications"),
            models.Index(fields=["-created_at"], condition=models.Q(state="failed"), name="failed_notifications"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} by {self.channel}"

    @property
    def message_id(self) -> str:
        """Retries have the id of the first attempt."""
        return f"msg_{self.pk.hex}"
