"""Gives a run the credentials that its task's owner gave its agent."""

from __future__ import annotations

import logging

from django.utils import timezone

from agentkit import AgentFailure
from agentkit import Credential as Lent
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.credentials import oauth
from apps.credentials.models import Credential
from apps.credentials.oauth import OAuthProblem
from apps.engine.turns.assignment import Assignment
from apps.record import runs
from apps.record.execution import Run
from apps.record.runs import LeaseLost
from parley import db
from parley.db.sql import database_time, write_transaction

log_lines = logging.getLogger("parley.audit")


async def lend(assignment: Assignment, service: str) -> Lent | None:
    """The usable credential for a service, or None. From now on it is redacted from the run's output.

    An expired access token is renewed first. Raises LeaseLost if the run's lease is lost, and AgentFailure if the token
    cannot be renewed now.
    """
    found = await db.run(_find, assignment, service)
    if found is not None and found.is_expired:
        try:
            await oauth.renew(found)
        except OAuthProblem as problem:
            sentence = f"The access to {service} could not be renewed. {problem}"
            raise AgentFailure(sentence, "credential_unavailable") from None
        found = await db.run(_find, assignment, service)
    if found is None:
        return None
    if service not in assignment.lent_services:
        await db.run(_log_use, assignment, found)
    hosts = tuple(found.oauth_service.allowed_hosts) if found.oauth_service else ()
    lent = Lent(found.service, found.auth_type, found.secret, found.username, hosts)  # type: ignore[arg-type]
    assignment.redaction.learn(lent)
    assignment.lent_services.add(service)
    return lent


def _find(assignment: Assignment, service: str) -> Credential | None:
    lease, task = assignment.lease, assignment.task
    held = Run.objects.filter(**lease.is_held, state=Run.State.RUNNING, lease_until__gt=database_time())
    if not held.exists():
        raise LeaseLost
    allowed = assignment.options.get("credentials")
    if allowed is not None and service not in allowed:
        return None  # the session's options exclude it
    usable = Credential.objects.of_task(task).usable().filter(service=service, lapsed_at=None)
    return usable.select_related("oauth_service").first()


def _log_use(assignment: Assignment, found: Credential) -> None:
    lease, task = assignment.lease, assignment.task
    details = {"agent": assignment.agent.slug, "owner": found.user_id, "task": str(task.pk), "run": str(lease.run_id)}
    subject = audit.Subject("credentials.credential", str(found.pk), found.service)
    with write_transaction():
        Credential.objects.filter(pk=found.pk).update(last_used_at=timezone.now())
        runs.add_note(lease.run_id, f"Was lent credential {found.pk}, for {found.service}.")
        audit.record(AuditAction.CREDENTIAL_LENT, object=subject, details=details)
    log_lines.info(
        "credential %s lent: agent %s, owner %s, task %s, run %s",
        found.pk, assignment.agent.slug, found.user_id, task.pk, lease.run_id,
    )  # fmt: skip
