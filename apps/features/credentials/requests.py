"""What becomes of a task's question for a credential: it is given, declined, or asked anew when its link is too old."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from django.utils import timezone

from agentkit import Failed
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import finish, resuming
from apps.engine.queue import publish
from apps.features.credentials.links import Link
from apps.features.credentials.models import Credential, CredentialRequest
from apps.record import ledger
from apps.record.ledger import Ledger
from apps.record.lifecycle import TERMINAL, TaskState
from apps.record.models import Context, Task

audit = logging.getLogger("parley.audit")


class Standing(Enum):
    """What can still be done with a link."""

    OPEN = "open"
    EXPIRED = "expired"  # too old, or renewed; the task still waits: a new link can be made
    GIVEN = "given"
    DECLINED = "declined"
    VOID = "void"  # the task waits no longer, or for something else


class LinkClosed(Exception):
    """The link cannot be used any more."""


@dataclass(frozen=True)
class Given:
    """What a person filled in."""

    secret: str = field(repr=False)
    username: str = field(default="", repr=False)


def find(token: str) -> CredentialRequest | None:
    """The request whose link has this token."""
    rows = CredentialRequest.objects.select_related("task__agent__current_version", "task__owner", "task__context")
    return rows.filter(digest=CredentialRequest.digest_of(token), task__context__deleted_at=None).first()


def may_answer(request: CredentialRequest, user: User | None) -> bool:
    """The task's owner, or an operator in their place; for a task that is nobody's, whoever has the link."""
    owner = request.task.owner_id
    if owner is None:
        return True
    return user is not None and (user.pk == owner or (user.is_staff and user.has_perm("credentials.add_credential")))


def standing(request: CredentialRequest) -> Standing:
    """How the request stands, by its row and its task's as they were read."""
    if request.answer:
        return Standing(request.answer)
    task = request.task
    waits = task.state == TaskState.AUTH_REQUIRED and task.status_at == request.asked_at
    if not waits:
        return Standing.VOID
    newer = CredentialRequest.objects.filter(task=task, created_at__gt=request.created_at)
    return Standing.EXPIRED if request.is_expired(timezone.now()) or newer.exists() else Standing.OPEN


def give(request: CredentialRequest, given: Given, by: User | None) -> None:
    """Keep the credential, in place of an older one, and let the task go on: once. Raises LinkClosed."""
    with _answering(request, CredentialRequest.Answer.GIVEN, by) as (log, task):
        _keep(task, request, given, by)
        run = resuming.go_on(log, task.pk, because=f"A credential for {request.service} was given.")
    if run is not None:
        publish(run)


def decline(request: CredentialRequest, by: User | None) -> None:
    """End the task: it failed for want of the credential. Raises LinkClosed."""
    with _answering(request, CredentialRequest.Answer.DECLINED, by) as (log, task):
        declined = Failed(f"The credential for {request.service} was declined.", "credential_declined")
        finish.end_waiting(log, task, declined)


def settle(agent: Agent, owner: User, by: User | None) -> None:
    """Let the owner's tasks go on that wait for a credential of the agent: it came by another way than their links.

    Those whose links are too old go on as well.
    """
    waiting = Task.objects.filter(agent=agent, owner=owner, state=TaskState.AUTH_REQUIRED)
    for task in waiting:
        asked = CredentialRequest.objects.filter(task=task, asked_at=task.status_at, answer="").order_by("-created_at")
        if (request := asked.first()) is None:
            continue  # what it waits for is arranged elsewhere
        run = None
        with (
            suppress(LinkClosed),
            _answering(request, CredentialRequest.Answer.GIVEN, by, (Standing.OPEN, Standing.EXPIRED)) as (log, found),
        ):
            run = resuming.go_on(log, found.pk, because=f"A credential for {request.service} was given.")
        if run is not None:
            publish(run)


def renew(request: CredentialRequest) -> str:
    """A new link for a question that still waits; gives its token. Raises LinkClosed.

    Of a task of nobody's none is made: the link is all that its holder shows, so its end has to be the end.
    """
    if request.task.owner_id is None:
        raise LinkClosed
    with _still(request, (Standing.EXPIRED,)) as (_, task):
        link = Link(request.service, request.auth_type)
        link.request(task, request.asked_at).save(force_insert=True)
    return link.token


@contextmanager
def _still(request: CredentialRequest, wanted: Sequence[Standing]) -> Iterator[tuple[Ledger, Task]]:
    """The log and the task, under the context's lock, if the request still stands in such a way. Raises LinkClosed."""
    try:
        with ledger.writing(request.task.context_id) as log:
            now = CredentialRequest.objects.select_related("task").get(pk=request.pk)
            if standing(now) not in wanted:
                raise LinkClosed
            yield log, log.task(now.task_id)
    except (Context.DoesNotExist, CredentialRequest.DoesNotExist):  # it was cleared just now
        raise LinkClosed from None


@contextmanager
def _answering(
    request: CredentialRequest,
    answer: CredentialRequest.Answer,
    by: User | None,
    wanted: Sequence[Standing] = (Standing.OPEN,),
) -> Iterator[tuple[Ledger, Task]]:
    with _still(request, wanted) as (log, task):
        answered: dict[str, Any] = {"answer": answer, "answered_at": timezone.now(), "answered_by": by}
        CredentialRequest.objects.filter(pk=request.pk).update(**answered)
        yield log, task
    audit.info(
        "credential request %s %s: agent %s, owner %s, task %s, by %s",
        request.pk, answer, task.agent.slug, task.owner_id, task.pk, by.pk if by else "a holder of the link",
    )  # fmt: skip


def _keep(task: Task, request: CredentialRequest, given: Given, by: User | None) -> None:
    mine = {"user_id": task.owner_id} if task.owner_id is not None else {"task_id": task.pk}
    Credential.objects.usable().update_or_create(
        agent_id=task.agent_id,
        service=request.service,
        **mine,
        defaults={
            "auth_type": request.auth_type,
            "secret": given.secret,
            "username": given.username,
            "given_by": by,
            "given_at": timezone.now(),
            "last_used_at": None,
        },
    )


def forget_ended() -> None:
    """Erase what was given to tasks of nobody's that have ended."""
    Credential.objects.filter(task__state__in=TERMINAL).delete()
