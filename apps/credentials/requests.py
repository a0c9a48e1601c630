"""A task's request for a credential, with a one-time link in its status message, and the answer to it."""

from __future__ import annotations

import datetime
import logging
import secrets
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from agentkit import AuthRequired, Failed, Part
from apps.accounts import audit
from apps.accounts.audit_models import ActorKind, AuditAction
from apps.accounts.errors import Kind, Refusal
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.credentials.models import NO_SECRETS, AuthType, Credential, CredentialRequest, OAuthService
from apps.engine import accept, finish
from apps.engine.queue import publish
from apps.record import ledger, wire
from apps.record.errors import InvalidParams
from apps.record.events import JSON
from apps.record.ledger import Ledger
from apps.record.models import TERMINAL_STATES, Context, Task, TaskState
from parley.db.sql import write_transaction

log_lines = logging.getLogger("parley.audit")
LONGEST_SECRET = 10_000  # characters


@dataclass(frozen=True, slots=True)
class CredentialLink:
    """A new link. Only the link has its token; the database gets the digest."""

    service: str
    auth_type: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    expires_at: datetime.datetime = field(
        default_factory=lambda: timezone.now() + datetime.timedelta(seconds=settings.CREDENTIAL_REQUEST_SECONDS)
    )

    @property
    def url(self) -> str:
        return f"{settings.PUBLIC_BASE_URL}/credentials/{self.token}"

    @property
    def part(self) -> Part:
        until = self.expires_at.astimezone(datetime.UTC)
        return {"text": f"To give it or to decline, open {self.url} (once, until {until:%Y-%m-%d %H:%M} UTC)."}

    @property
    def metadata(self) -> JSON:
        expires = wire.timestamp(self.expires_at)
        return {"service": self.service, "auth_type": self.auth_type, "url": self.url, "expires": expires}

    def request(self, task: Task, asked_at: datetime.datetime) -> CredentialRequest:
        return CredentialRequest(
            task=task,
            service=self.service,
            auth_type=self.auth_type,
            digest=CredentialRequest.digest_of(self.token),
            asked_at=asked_at,
            expires_at=self.expires_at,
        )


def link_for(outcome: object) -> CredentialLink | None:
    """The link for an outcome that asks for a credential; None for any other outcome."""
    if isinstance(outcome, AuthRequired) and outcome.service:
        return CredentialLink(outcome.service, outcome.auth_type)
    return None


class RequestStatus(Enum):
    OPEN = "open"
    EXPIRED = "expired"  # or renewed; the task still waits
    GIVEN = "given"
    DECLINED = "declined"
    VOID = "void"  # the task no longer waits for it


class LinkClosed(Refusal):
    """The task asks for no credential now. Read it again."""

    kind = Kind.CONFLICT


@dataclass(frozen=True)
class GivenCredential:
    """What a person typed, or the tokens that they got by connecting to an OAuth service."""

    secret: str = field(repr=False)
    username: str = field(default="", repr=False)
    oauth_service: OAuthService | None = None
    refresh_token: str = field(default="", repr=False)
    expires_at: datetime.datetime | None = None


@sensitive_variables()
def read_credential(auth_type: str, given: Mapping[str, str]) -> GivenCredential:
    """From a form, or a program's fields `secret` and `username`. Raises InvalidParams."""
    secret, username = given.get("secret", ""), ""
    if auth_type == AuthType.BASIC:
        username = given.get("username", "").strip()
        if not username or ":" in username:
            raise InvalidParams("Enter the user name. It cannot contain a colon.", "username")
    else:
        secret = secret.strip()  # copying adds spaces
    if not secret:
        raise InvalidParams("Fill in the field, or decline.", "secret")
    whole = secret + username
    if len(whole) > LONGEST_SECRET or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in whole):
        raise InvalidParams(
            f"This contains line breaks, or more than {LONGEST_SECRET:,} characters. Copy it again.", "secret"
        )
    return GivenCredential(secret, username)


def request_of(task: Task) -> CredentialRequest | None:
    """What the task asks for now; None if it asks for no credential."""
    asked = _whole_requests().filter(task=task, asked_at=task.status_at, answer="").order_by("-created_at").first()
    return asked if task.state == TaskState.AUTH_REQUIRED else None


def find_request(token: str) -> CredentialRequest | None:
    return _whole_requests().filter(digest=CredentialRequest.digest_of(token), task__context__deleted_at=None).first()


def _whole_requests() -> QuerySet[CredentialRequest]:
    return CredentialRequest.objects.select_related("task__agent__current_version", "task__owner", "task__context")


def may_answer(request: CredentialRequest, user: User | None) -> bool:
    """The task's owner, or an operator in their place. For an anonymous task, anybody with the link."""
    owner = request.task.owner_id
    if owner is None:
        return True
    return user is not None and (user.pk == owner or user.may_operate("credentials.add_credential"))


def request_status(request: CredentialRequest) -> RequestStatus:
    if request.answer:
        return RequestStatus(request.answer)
    task = request.task
    waits = task.state == TaskState.AUTH_REQUIRED and task.status_at == request.asked_at
    if not waits:
        return RequestStatus.VOID
    newer = CredentialRequest.objects.filter(task=task, created_at__gt=request.created_at)
    return RequestStatus.EXPIRED if request.is_expired(timezone.now()) or newer.exists() else RequestStatus.OPEN


BY_LINK = (RequestStatus.OPEN,)
BY_OWNER = (RequestStatus.OPEN, RequestStatus.EXPIRED)
"""Of which requests an answer counts: who comes by another way than the link needs no link that is still open."""


def give(
    request: CredentialRequest,
    given: GivenCredential | None,
    by: User | None,
    wanted: Sequence[RequestStatus] = BY_LINK,
) -> None:
    """Store the credential, replacing an older one, and resume the task. Raises LinkClosed.

    `given`: None if it was stored in another way.
    """
    with _locked_to_answer(request, CredentialRequest.Answer.GIVEN, by, wanted) as (log, task):
        run = accept.record_resume(log, task.pk, because=f"A credential for {request.service} was given.")
        if given is not None:
            _store_credential(task, request, given, by)
            record_credential(AuditAction.CREDENTIAL_STORED, task, request.service, by)
    if run is not None:
        publish(run)


def decline(request: CredentialRequest, by: User | None, wanted: Sequence[RequestStatus] = BY_LINK) -> None:
    """Fail the task because the person declined to give the credential. Raises LinkClosed."""
    with _locked_to_answer(request, CredentialRequest.Answer.DECLINED, by, wanted) as (log, task):
        declined = Failed(f"The credential for {request.service} was declined.", "credential_declined")
        finish.fail_waiting(log, task, declined)
        record_credential(AuditAction.CREDENTIAL_DECLINED, task, request.service, by)


def record_credential(action: AuditAction, task: Task, service: str, by: User | None) -> None:
    subject = audit.Subject("credentials.credential", label=service)
    details = {"agent": task.agent.slug, "owner": task.owner_id, "task": str(task.pk)}
    actor = by or audit.Actor(ActorKind.ANONYMOUS, name="a holder of the link")
    audit.record(action, actor=actor, object=subject, workspace=task.context.workspace_id, details=details)


def connect(agent: Agent, owner: User, service: str, tokens: GivenCredential) -> None:
    """Store the tokens that the owner got by connecting, and resume their tasks that wait for them."""
    with write_transaction():
        _store(agent.pk, service, AuthType.BEARER, tokens, owner, user_id=owner.pk)
        subject = audit.Subject("credentials.credential", label=service)
        details = {"agent": agent.slug, "owner": owner.pk, "change": "connected by OAuth2"}
        audit.record(AuditAction.CREDENTIAL_STORED, actor=owner, object=subject, details=details)
    resume_waiting_tasks(agent, owner, owner, service)


def resume_waiting_tasks(agent: Agent, owner: User, by: User | None, service: str | None = None) -> None:
    """Resume the owner's tasks that wait for a credential of the agent that was given in another way.

    Also resumes tasks whose link has expired. With a `service`, those that asked for it alone.
    """
    for task in Task.objects.filter(agent=agent, owner=owner, state=TaskState.AUTH_REQUIRED):
        if (request := request_of(task)) and service in (None, request.service):
            with suppress(LinkClosed):
                give(request, None, by, BY_OWNER)


def renew(request: CredentialRequest) -> str:
    """Make a new link for an expired request; returns its token. Raises LinkClosed.

    Anonymous tasks get no new link: only the old link proved who may answer.
    """
    if request.task.owner_id is None:
        raise LinkClosed
    with _locked(request, (RequestStatus.EXPIRED,)) as (_, task):
        link = CredentialLink(request.service, request.auth_type)
        link.request(task, request.asked_at).save(force_insert=True)
    return link.token


@contextmanager
def _locked(request: CredentialRequest, wanted: Sequence[RequestStatus]) -> Iterator[tuple[Ledger, Task]]:
    """The log and the task under the context's lock, if the request has one of these statuses. Raises LinkClosed."""
    try:
        with ledger.writing(request.task.context_id) as log:
            now = CredentialRequest.objects.select_related("task").get(pk=request.pk)
            if request_status(now) not in wanted:
                raise LinkClosed
            yield log, log.task(now.task_id)
    except (Context.DoesNotExist, CredentialRequest.DoesNotExist):  # the conversation was deleted just now
        raise LinkClosed from None


@contextmanager
def _locked_to_answer(
    request: CredentialRequest,
    answer: CredentialRequest.Answer,
    by: User | None,
    wanted: Sequence[RequestStatus],
) -> Iterator[tuple[Ledger, Task]]:
    with _locked(request, wanted) as (log, task):
        answered: dict[str, Any] = {"answer": answer, "answered_at": timezone.now(), "answered_by": by}
        CredentialRequest.objects.filter(pk=request.pk).update(**answered)
        yield log, task
    log_lines.info(
        "credential request %s %s: agent %s, owner %s, task %s, by %s",
        request.pk, answer, task.agent.slug, task.owner_id, task.pk, by.pk if by else "a holder of the link",
    )  # fmt: skip


def _store_credential(task: Task, request: CredentialRequest, given: GivenCredential, by: User | None) -> None:
    mine = {"user_id": task.owner_id} if task.owner_id is not None else {"task_id": task.pk}
    _store(task.agent_id, request.service, request.auth_type, given, by, **mine)


def _store(agent: int, service: str, auth_type: str, given: GivenCredential, by: User | None, **whose: Any) -> None:
    Credential.objects.usable().update_or_create(
        agent_id=agent,
        service=service,
        **whose,
        defaults={
            **NO_SECRETS,
            "auth_type": auth_type,
            "secret": given.secret,
            "username": given.username,
            "oauth_service": given.oauth_service,
            "refresh_token": given.refresh_token,
            "expires_at": given.expires_at,
            "lapsed_at": None,
            "given_by": by,
            "given_at": timezone.now(),
            "last_used_at": None,
        },
    )


def erase_task_credentials() -> None:
    """Erase the credentials of anonymous tasks that have ended."""
    Credential.objects.filter(task__state__in=TERMINAL_STATES).delete()
