"""Verifies the signatures that remote agents put on their artifacts (docs/extensions/signature-v1.md).

They come with the completed task. They are noted before the outcome is recorded, and verified afterward, because the
keys must be fetched. The record is not changed.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.agents.identities import signing
from apps.agents.identities.signing import BadSignature
from apps.optional.signing.models import ForeignSignature, Verdict, Vouch
from apps.optional.signing.signatures import STATEMENT_ERRORS, foreign_part_statement, statement
from apps.record.content.strict_json import canonical
from apps.record.execution import Run
from apps.record.runs import add_note
from apps.remote.agent_cards import cards
from apps.remote.execution import cancellation
from apps.remote.execution.runs import RemoteRun
from apps.remote.identity import did_web
from apps.remote.identity.did_web import Unresolved, resolver
from apps.remote.models import RemoteAgent
from parley import db
from parley.db import sql
from parley.work import WorkList

JSON = dict[str, Any]
JWK = dict[str, Any]

log = logging.getLogger("parley.signatures")

EXTENSION = "/ext/signature/v1"  # end of its URI, after the installation's base URL
MOST_SIGNED = 100  # artifacts of one task
LARGEST_STATEMENT = 1024**2  # bytes, as `signing` takes
LONGEST_CLAIM = 8 * 1024  # characters
CLAIMS = ("agent", "created", "inputSnapshot", "signature")
FIRST_RETRY, LONGEST_RETRY = 30.0, 3600.0  # seconds
MOST_TRIES = 6
LEASE = datetime.timedelta(minutes=2)


async def note_signatures(remote_run: RemoteRun, task: JSON, artifact_id: Callable[[str], str]) -> None:
    """Store the signatures of a completed remote task, and begin to verify them.

    `artifact_id` gives an artifact's id in the record. Costs nothing if there is none.
    """
    signed = [one for one in task.get("artifacts") or [] if _claims_of(one)][:MOST_SIGNED]
    if not signed:
        return
    rows = await asyncio.to_thread(lambda: [_noted(remote_run, task, one, artifact_id) for one in signed])
    keys = await db.persist(_save, rows)
    cancellation.run_in_background(_verify_all(keys))


def _claims_of(artifact: JSON) -> tuple[str, JSON] | None:
    """The base URL of the installation that signed, and what it says."""
    metadata = artifact.get("metadata")
    found: Iterator[tuple[str, JSON]] = (
        (uri.removesuffix(EXTENSION), value)
        for uri, value in (metadata.items() if isinstance(metadata, dict) else ())
        if uri.endswith(EXTENSION) and isinstance(value, dict)
    )
    return next(found, None)


def _noted(remote_run: RemoteRun, task: JSON, artifact: JSON, artifact_id: Callable[[str], str]) -> ForeignSignature:
    base, told = _claims_of(artifact) or ("", {})
    claims = {name: str(told.get(name, ""))[:LONGEST_CLAIM] for name in CLAIMS}
    row = ForeignSignature(
        task=remote_run.assignment.task.pk,
        artifact_id=artifact_id(artifact["artifactId"]),
        agent_id=remote_run.assignment.agent.pk,
        claims=claims,
        verdict=Verdict.PENDING,
    )
    try:
        part_statement = partial(foreign_part_statement, files=f"{base}/files/")
        signed = canonical(statement(artifact, claims, task["id"], task.get("contextId", ""), part_statement))
        row.statement = signed.decode()
        signing.unverified_header(claims["signature"])
    except (BadSignature, *STATEMENT_ERRORS):
        row.verdict, row.reason, row.statement = Verdict.BROKEN, "The signature or the content cannot be read.", ""
    if len(row.statement) > LARGEST_STATEMENT:
        row.verdict, row.reason, row.statement = Verdict.UNKNOWN_KEY, "The artifact has too many parts to verify.", ""
    return row


def _save(rows: list[ForeignSignature]) -> list[int]:
    """Idempotent: a task that is confirmed again has the same signatures."""
    keys, now = [], sql.database_time()
    for row in rows:
        row.next_try_at = now
        names = ("agent_id", "claims", "verdict", "statement", "reason", "next_try_at")
        values = {name: getattr(row, name) for name in names}
        kept, is_new = ForeignSignature.objects.get_or_create(
            task=row.task, artifact_id=row.artifact_id, defaults=values
        )
        if not is_new and kept.claims != row.claims:
            ForeignSignature.objects.filter(pk=kept.pk).update(**values, key={}, vouched_by="", tries=0)
        if row.verdict == Verdict.BROKEN:
            _alarm(row)
        keys.append(kept.pk)
    return keys


async def _verify_all(keys: list[int]) -> None:
    try:
        for key in keys:
            await verify_due(key)
    except Exception:
        log.warning("signatures were not verified; the sweep does it", exc_info=True)


async def verify_due(key: int) -> None:
    """Verifies the signature of a remote agent on an artifact."""
    for row, remote in await db.run(_claim, key):
        await verify(row, remote)


def _agent_of(key: int) -> str:
    """ "" where the agent or the signature is gone."""
    return str(ForeignSignature.objects.filter(pk=key).values_list("agent", flat=True).first() or "")


SIGNATURES = WorkList(
    "signatures", "remote.verify_signature", verify_due, ForeignSignature, "next_try_at", host_of=_agent_of, at_once=50
)


def _claim(key: int) -> list[tuple[ForeignSignature, RemoteAgent | None]]:
    rows = ForeignSignature.objects.filter(pk=key).claim(LEASE)
    return [(row, RemoteAgent.objects.filter(agent=row.agent_id).first()) for row in rows]


async def verify(row: ForeignSignature, remote: RemoteAgent | None) -> None:
    """Verify a pending signature and store the verdict, or when to try again."""
    try:
        key, by = await _find_key(row, remote)
    except Unresolved as error:
        if not error.is_final and row.tries < MOST_TRIES:
            await db.run(partial(row.retry, FIRST_RETRY, LONGEST_RETRY, reason=str(error)))
        else:
            await db.run(row.conclude, Verdict.UNKNOWN_KEY, str(error))
        return
    verdict, reason = Verdict.GOOD, ""
    try:
        signing.verify_foreign(row.claims["signature"], row.statement.encode(), key)
    except BadSignature as error:
        verdict, reason = Verdict.BROKEN, str(error)
    public = {name: value for name, value in key.items() if name in signing.PUBLIC_MEMBERS}
    public["kid"] = signing.unverified_header(row.claims["signature"]).get("kid", "")
    is_kept = await db.run(partial(row.conclude, verdict, reason, key=public, by=by))
    if is_kept and verdict == Verdict.BROKEN:
        await db.run(_alarm, row)


def _alarm(row: ForeignSignature) -> None:
    """A wrong signature is told in the log, the audit and the run's notes."""
    slug = row.agent.slug if row.agent else ""
    log.error("WRONG SIGNATURE: artifact %s of task %s, from %s, by %s", row.artifact_id, row.task, slug, row.signer)
    subject = audit.Subject("record.artifact", str(row.task), row.artifact_id)
    details = {"agent": slug, "signer": row.signer, "task": str(row.task)}
    audit.record(AuditAction.SIGNATURE_WRONG, object=subject, details=details)
    runs = Run.objects.filter(task=row.task).order_by("-queued_at")
    if (run := runs.values_list("pk", flat=True).first()) is not None:
        add_note(run, f"The signature on {row.artifact_id} is wrong: it was changed, or signed by somebody else.")


async def _find_key(row: ForeignSignature, remote: RemoteAgent | None) -> tuple[JWK, Vouch]:
    """The key that a signature names: of its identity, else of its card or its server's key set.

    An identity speaks only for agents of its own server. Its document decides if there is one: a key that is not in it
    may be revoked. Raises Unresolved.
    """
    kid = str(signing.unverified_header(row.claims["signature"]).get("kid", ""))
    origin = remote.origin if remote else ""
    authority, _ = did_web.split_did(row.signer)
    if not origin or cards.origin_of(f"{origin.partition('://')[0]}://{authority}") != origin:
        raise Unresolved("It is signed in the name of an identity that is not the agent's.", is_final=True)
    unencrypted = origin if cards.is_unencrypted(origin) else ""
    try:
        document = await resolver.resolve(row.signer, unencrypted=unencrypted)
        if kid not in document.keys:
            document = await resolver.resolve(row.signer, unencrypted=unencrypted, fresh=True)
    except Unresolved as error:
        if not error.is_final and row.tries < MOST_TRIES:
            raise
        return await _find_other_key(kid, remote.pinned_keys if remote else [], origin)
    if kid not in document.keys:
        raise Unresolved("The key is not one of the agent's: unknown, or revoked.", is_final=True)
    return document.keys[kid], Vouch.DID


async def _find_other_key(kid: str, pinned: list[JWK], origin: str) -> tuple[JWK, Vouch]:
    """Where there is no document. Raises Unresolved."""
    for key in pinned:
        if kid and key.get("kid") == kid:
            return key, Vouch.CARD
    told = await did_web.fetch_json(f"{origin}/.well-known/jwks.json")
    keys = told.get("keys") if isinstance(told, dict) else None
    for key in keys if isinstance(keys, list) else []:
        if kid and isinstance(key, dict) and key.get("kid") == kid:
            return key, Vouch.KEY_SET
    raise Unresolved("The key that made the signature is not to be found.", is_final=True)
