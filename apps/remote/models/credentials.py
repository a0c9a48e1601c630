"""What lets Parley in at remote agents: for everybody who may use the agent, or of one person."""

from __future__ import annotations

import datetime
import json

from django.db import models
from django.utils import timezone

from apps.accounts.encrypted import EncryptedTextField
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.agents.models import Agent

LONGEST_SCHEME = 200  # characters of a scheme's name in a card


class RemoteCredentialQuerySet(models.QuerySet["RemoteCredential"]):
    def of(self, agent: Agent | int, owner_id: int | None) -> RemoteCredentialQuerySet:
        """What may be used for an owner's work: what is for everybody, and their own."""
        whose = models.Q(user=None) if owner_id is None else models.Q(user=None) | models.Q(user_id=owner_id)
        return self.filter(whose, agent=agent)

    def visible_to(self, principal: Principal) -> RemoteCredentialQuerySet:
        return self.filter(user_id=principal.user_id) if principal.user_id is not None else self.none()

    def untold(self) -> RemoteCredentialQuerySet:
        """For pages: the secrets are not even read."""
        return self.defer("secret", "token")


class RemoteCredential(models.Model):
    """A secret for one security scheme of a remote agent's card. It is sent to one origin, for which it was given.

    The row of everybody (without a user) also says whether each person brings their own; it may then be without a
    secret, and one that it has serves the checks of the agent alone.
    """

    class Kind(models.TextChoices):
        API_KEY = "api_key", "API key"
        BEARER = "bearer", "access token"
        BASIC = "basic", "name and password"
        CLIENT_CREDENTIALS = "client", "OAuth2 client"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="remote_credentials")
    user = models.ForeignKey(
        User,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="remote_credentials",
        help_text="Empty: for everybody who may use the agent.",
    )
    scheme = models.CharField(max_length=LONGEST_SCHEME, help_text="Its name in the card's securitySchemes.")
    is_personal = models.BooleanField("each person brings their own", default=False)
    kind = models.CharField(max_length=10, choices=Kind, blank=True)
    secret = EncryptedTextField(blank=True, help_text="JSON: the fields of the kind.")
    origin = models.CharField(max_length=300, blank=True, help_text="Where it is sent, and nowhere else.")
    issuer = models.CharField(max_length=300, blank=True, help_text="Where an OAuth2 client's secret is sent instead.")
    token = EncryptedTextField(blank=True, help_text="JSON: what the issuer gave last.")
    token_until = models.DateTimeField(null=True, blank=True, editable=False)
    given_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(default=timezone.now, editable=False, help_text="When the secret was given.")
    last_used_at = models.DateTimeField("last used", null=True, blank=True, editable=False)
    expires_at = models.DateTimeField("expires", null=True, blank=True)

    objects = RemoteCredentialQuerySet.as_manager()

    class Meta:
        verbose_name = "credential of a remote agent"
        verbose_name_plural = "credentials of remote agents"
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "scheme"],
                condition=models.Q(user=None),
                name="one_remote_credential_of_everybody_per_scheme",
            ),
            models.UniqueConstraint(
                fields=["agent", "user", "scheme"],
                condition=models.Q(user__isnull=False),
                name="one_remote_credential_of_a_person_per_scheme",
            ),
            models.CheckConstraint(
                condition=models.Q(user=None) | models.Q(is_personal=False),
                name="the_row_of_everybody_says_who_brings_it",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scheme} for {self.agent_id}"

    @property
    def values(self) -> dict[str, str]:
        """The secret's fields, such as `key`; none where no secret was given."""
        fields: dict[str, str] = json.loads(self.secret) if self.secret else {}
        return fields

    def is_expired(self, now: datetime.datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now
