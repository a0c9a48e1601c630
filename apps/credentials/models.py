"""Credentials that people gave to agents, and the links by which they are asked for them."""

from __future__ import annotations

import datetime
import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone

from agentkit import outcomes
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.accounts.visibility import VisibleQuerySet
from apps.agents.models import Agent
from apps.record.models import Task
from parley import outbound
from parley.db.sql import write_transaction


class AuthType(models.TextChoices):
    API_KEY = "api_key", "API key"
    BEARER = "bearer", "access token"
    BASIC = "basic", "name and password"


def check_url(url: str) -> None:
    """Raises ValidationError unless it is an address that Parley may call."""
    try:
        outbound.guard().check(url)
    except outbound.Forbidden as refused:
        raise ValidationError(str(refused)) from None


class OAuthServiceQuerySet(models.QuerySet["OAuthService"]):
    def named(self, service: str) -> OAuthService | None:
        """The service that agents mean when they ask for a credential by this name."""
        return self.filter(name__iexact=service).first()

    def for_request(self, request: CredentialRequest) -> OAuthService | None:
        """The service to which the owner of a hosted agent's task may connect instead of typing something."""
        task = request.task
        is_theirs = task.owner_id is not None and task.agent.kind != Agent.Kind.REMOTE
        return self.named(request.service) if is_theirs else None


class OAuthService(models.Model):
    """A service to which people connect by OAuth2, as an operator declared it.

    Agents ask for its credential by its name, in any case.
    """

    name = models.CharField(
        max_length=outcomes.MAX_SERVICE_LENGTH, help_text="What agents ask for: AuthRequired(service=…)."
    )
    issuer = models.CharField(
        max_length=2000,
        blank=True,
        validators=[check_url],
        help_text="Parley finds the addresses below in the issuer's metadata. Without one, fill them in.",
    )
    authorization_url = models.CharField("authorization URL", max_length=2000, blank=True, validators=[check_url])
    token_url = models.CharField("token URL", max_length=2000, blank=True, validators=[check_url])
    revocation_url = models.CharField(
        "revocation URL",
        max_length=2000,
        blank=True,
        validators=[check_url],
        help_text="Called when people disconnect.",
    )
    client_id = models.CharField("client ID", max_length=500)
    client_secret = EncryptedTextField(blank=True, help_text="Empty for a public client.")
    secret_in_body = models.BooleanField(
        default=False, help_text="Send the client secret in the form instead of by HTTP Basic."
    )
    scopes = models.CharField(max_length=2000, blank=True, help_text="With spaces between.")
    hosts = models.CharField(
        max_length=1000,
        blank=True,
        validators=[
            RegexValidator(
                r"^[a-z0-9._-]+(:\d+)?( [a-z0-9._-]+(:\d+)?)*\Z", "Write host names, such as api.example.org."
            )
        ],
        help_text="Where agents may send the token, with spaces between, such as api.example.org.",
    )
    parameters = models.JSONField(
        default=list, blank=True, help_text="More parameters of the authorization, as rows of `name` and `value`."
    )
    metadata = models.JSONField(default=dict, editable=False, help_text="What the issuer said last (RFC 8414).")

    objects = OAuthServiceQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        verbose_name = "OAuth service"
        constraints = [
            models.UniqueConstraint(
                Lower("name"),
                name="one_oauth_service_of_a_name",
                violation_error_message="There is a service of this name. Change that one, or choose another name.",
            )
        ]

    def __str__(self) -> str:
        return self.name

    def endpoint(self, kind: str) -> str:
        """The URL for `authorization`, `token` or `revocation`; "" if there is none."""
        return str(getattr(self, f"{kind}_url") or self.metadata.get(f"{kind}_endpoint", ""))

    @property
    def is_discovered(self) -> bool:
        """Whether its addresses are known."""
        return bool(self.endpoint("authorization") and self.endpoint("token") and (self.metadata or not self.issuer))

    @property
    def client_authentication(self) -> str:
        """The method's name at the token endpoint (RFC 7591 §2)."""
        if not self.client_secret:
            return "none"
        takes = self.metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        in_body = self.secret_in_body or ("client_secret_basic" not in takes and "client_secret_post" in takes)
        return "client_secret_post" if in_body else "client_secret_basic"

    @property
    def authorization_parameters(self) -> dict[str, str]:
        return {one["name"]: one["value"] for one in self.parameters}

    @property
    def allowed_hosts(self) -> Sequence[str]:
        return self.hosts.split()


class CredentialQuerySet(VisibleQuerySet["Credential"]):
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
    oauth_service = models.ForeignKey(
        OAuthService,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="credentials",
        help_text="Where the secret is an access token that its owner got by connecting.",
    )
    refresh_token = EncryptedTextField(blank=True, default="", db_default="")
    expires_at = models.DateTimeField(
        "expires", null=True, blank=True, help_text="When the access token is renewed, shortly before its end."
    )
    renewing_until = models.DateTimeField(
        null=True, editable=False, help_text="Until then, one run alone may use the refresh token."
    )
    lapsed_at = models.DateTimeField(
        "needs connecting since", null=True, blank=True, help_text="When the service refused to renew it."
    )

    objects = CredentialQuerySet.as_manager()
    is_told = True  # whether its service knows that it was revoked just now

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

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    def revoke(self, by: User | Principal | None = None) -> None:
        """Erase it here. `oauth.disconnect` also tells the service."""
        with write_transaction():
            self.erase(revoked_at=timezone.now())
            details = {"agent": self.agent.slug, "owner": self.user_id}
            subject = audit.Subject("credentials.credential", str(self.pk), self.service)
            audit.record(AuditAction.CREDENTIAL_REMOVED, actor=by, object=subject, details=details)

    def erase(self, **when: datetime.datetime) -> None:
        """Forget all secrets. `when` says which time is noted: `revoked_at`, or `lapsed_at`."""
        fields: dict[str, Any] = {**NO_SECRETS, **when}
        for name, value in fields.items():
            setattr(self, name, value)
        self.save(update_fields=list(fields))


NO_SECRETS: dict[str, Any] = {
    "username": "",
    "secret": "",
    "refresh_token": "",
    "expires_at": None,
    "renewing_until": None,
}


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
