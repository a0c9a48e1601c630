"""The one-time link by which a task asks for a credential, as its status message carries it."""

from __future__ import annotations

import datetime
import secrets
from dataclasses import dataclass, field

from django.conf import settings
from django.utils import timezone

from agentkit import AuthRequired, Part
from apps.features.credentials.models import CredentialRequest
from apps.record import wire
from apps.record.events import JSON
from apps.record.models import Task


def _end() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.CREDENTIAL_REQUEST_SECONDS)


@dataclass(frozen=True, slots=True)
class Link:
    """A new link. Its token is in the link alone; the database gets the digest."""

    service: str
    auth_type: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    expires_at: datetime.datetime = field(default_factory=_end)

    @property
    def url(self) -> str:
        return f"{settings.PUBLIC_BASE_URL}/credentials/{self.token}"

    @property
    def part(self) -> Part:
        """What the platform adds to the agent's words."""
        until = self.expires_at.astimezone(datetime.UTC)
        return {"text": f"To give it or to decline, open {self.url} (once, until {until:%Y-%m-%d %H:%M} UTC)."}

    @property
    def metadata(self) -> JSON:
        """The same for programs."""
        expires = wire.timestamp(self.expires_at)
        return {"service": self.service, "auth_type": self.auth_type, "url": self.url, "expires": expires}

    def request(self, task: Task, asked_at: datetime.datetime) -> CredentialRequest:
        """The row to be kept, for the task's status of that time."""
        return CredentialRequest(
            task=task,
            service=self.service,
            auth_type=self.auth_type,
            digest=CredentialRequest.digest_of(self.token),
            asked_at=asked_at,
            expires_at=self.expires_at,
        )


def link_for(outcome: object) -> Link | None:
    """The link of a turn that ends by asking for a credential; None for any other end."""
    if isinstance(outcome, AuthRequired) and outcome.service:
        return Link(outcome.service, outcome.auth_type)
    return None
