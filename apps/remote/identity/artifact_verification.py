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

from django.utils import timezone

import db
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.agents import signing
from apps.agents.signing import BadSignature
from apps.features.signing.models import ForeignSignature, Verdict, Vouch
from apps.features.signing.signatures import STATEMENT_ERRORS, foreign_part_statement, statement
from apps.record.content.strict_json import canonical
from apps.record.execution import Run
from apps.record.runs import add_note
from apps.remote import cards
from apps.remote.execution import cancellation
from apps.remote.execution.runs import RemoteRun
from apps.remote.identity import did_web
from apps.remote.identity.did_web import Unresolved, resolver
from apps.remote.models import RemoteAgent

JSON = dict[str, Any]
JWK = dict[str, Any]

log = logging.getLogger("parley.signatures")

EXTENSION = "/ext/signature/v1"  # end of its URI, after the installation's base URL
MOST_SIGNED = 100  # artifacts of one task
LARGEST_STATEMENT = 1024**2  # bytes, as `signing` takes
LONGEST_CLAIM = 8 * 1024  # characters
CLAIMS = ("agent", "created", "inputSnapshot", "signature")
RETRY = datetime.timedelta(seconds=30)  # before the second try; it doubles
MOST_TRIES = 6
SWEPT = 50  # signatures at a time


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
    keys = []
    for row in rows:
        values = {name: getattr(row, name) for name in ("agent_id", "claims", "verdict", "statement", "reason")}
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
        for row in await db.run(_pending, keys):
            await verify(*row)
    except Exception:
        log.warning("signatures were not verified; the sweep does it", exc_info=True)


def verify_due() -> int:
    """Verify what waits; returns how many. For threads without an event loop."""
    due = ForeignSignature.objects.due(timezone.now()).values_list("pk", flat=True)[:SWEPT]
    found = _pending(list(due))

    async def all_of_them() -> None:
        await asyncio.gather(*(verify(*one) for one in found))

    asyncio.run(all_of_them())
    return len(found)


def _pending(keys: list[int]) -> list[tuple[ForeignSignature, RemoteAgent | None]]:
    rows = list(ForeignSignature.objects.filter(pk__in=keys, verdict=Verdict.PENDING))
    remotes = {one.agent_id: one for one in RemoteAgent.objects.filter(agent__in={row.agent_id for row in rows})}
    return [(row, remotes.get(row.agent_id)) for row in rows if row.agent_id is not None]


async def verify(row: ForeignSignature, remote: RemoteAgent | None) -> None:
    """Verify a pending signature and store the verdict, or when to try again."""
    try:
        key, by = await _find_key(row, remote)
    except Unresolved as error:
        if not error.is_final and row.tries + 1 < MOST_TRIES:
            await db.run(_postpone, row, str(error))
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
    await db.run(partial(row.conclude, verdict, reason, key=public, by=by))
    if verdict == Verdict.BROKEN:
        await db.run(_alarm, row)


def _postpone(row: ForeignSignature, reason: str) -> None:
    later = timezone.now() + RETRY * 2**row.tries
    pending = ForeignSignature.objects.filter(pk=row.pk, verdict=Verdict.PENDING)
    pending.update(tries=row.tries + 1, next_try_at=later, reason=reason)


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
        if not error.is_final and row.tries + 1 < MOST_TRIES:
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
