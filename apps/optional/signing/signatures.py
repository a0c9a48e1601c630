"""Signed artifacts: what an agent's signature on an artifact says, how it is made and verified.

The signature is a detached JWS over the RFC 8785 form of a statement (`statement`). `docs/extensions/signature-v1.md`
describes the A2A extension, and how to verify a signature without Parley.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.urls import Resolver404, resolve
from django.utils import timezone
from rfc8785 import CanonicalizationError

from apps.accounts.secrets.encryption import CannotDecrypt
from apps.agents import cards
from apps.agents.identities import identity, signing
from apps.agents.identities.signing import BadSignature, signer_of
from apps.agents.models import Agent, SigningKey
from apps.optional.signing.models import ForeignSignature, Verdict
from apps.record import wire
from apps.record.content import blobs
from apps.record.content.strict_json import canonical, digest_of
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.models import Artifact, Task
from parley.db.sql import Keys

log = logging.getLogger("parley.signatures")

INLINE_BYTES = 64 * 1024  # longer content is represented by its SHA-256
CONTENT_FIELDS = ("text", "raw", "data", "url", "stored")  # a part has exactly one
SHA256 = re.compile(r"[0-9a-f]{64}")
KEY_ID = re.compile(r"[\w-]{43}", re.ASCII)
STATEMENT_ERRORS = (KeyError, TypeError, ValueError, AttributeError, RecursionError, OSError, CanonicalizationError)
"""What a statement raises of something that has none."""

PartStatement = Callable[[JSON], JSON]


@dataclass(frozen=True, slots=True)
class Verification:
    """A verdict, the claims that came with the signature, and the key that it names, if known.

    `foreign` is the stored result of a remote agent's own signature.
    """

    verdict: Verdict
    claims: JSON
    key: SigningKey | None = None
    foreign: ForeignSignature | None = None


def examine(row: Artifact) -> Verification:
    """The verdict on a recorded artifact: on this installation's signature, else on the remote agent's own.

    Reads the content again. Uses `row.task.context`; one query more if the artifact has no signature of ours.
    """
    if row.signature:
        verdict, key = verify(row)
        return Verification(verdict, row.signature, key)
    foreign = ForeignSignature.objects.filter(task=row.task_id, artifact_id=row.artifact_id).first()
    if foreign is None:
        return Verification(Verdict.MISSING, {})
    verdict = Verdict(foreign.verdict)
    if verdict == Verdict.GOOD and digest_of(row.parts) != row.digest:  # changed here, after it was verified
        verdict = Verdict.BROKEN
    return Verification(verdict, foreign.claims, foreign=foreign)


def foreign_verdicts(tasks: Iterable[uuid.UUID]) -> dict[tuple[uuid.UUID, str], Verdict]:
    """The verdicts on remote agents' own signatures, by task and artifact id. One query (`signature_verdicts`)."""
    found = ForeignSignature.objects.filter(task__in=set(tasks)).values_list("task", "artifact_id", "verdict")
    return {(task, artifact_id): Verdict(verdict) for task, artifact_id, verdict in found}


def erase_foreign(contexts: Keys) -> None:
    """Erase the signatures of the contexts' artifacts (`before_erasure`)."""
    ForeignSignature.objects.filter(task__in=Task.objects.filter(context__in=contexts).values("pk")).delete()


def sign_artifacts(
    task: Task, delivered: Iterable[tuple[Artifact, list[JSON]]], inputs: Mapping[uuid.UUID, str]
) -> dict[str, JSON]:
    """The signatures by the task's agent of artifacts with these parts, by their ids.

    `inputs` are the known input hashes of runs; the others are looked up. Artifacts without a canonical form (for
    example with integers that are not doubles) stay unsigned, and so do all if the agent's key cannot be read. Uses
    `task.agent` and `task.context`.
    """
    try:
        signer = signer_of(task.agent)
    except CannotDecrypt as error:
        log.error("what %s delivers stays unsigned. %s", task.agent.slug, error)
        return {}
    made = list(delivered)
    if missing := {row.run for row, _ in made if row.run} - inputs.keys():
        inputs = {**inputs, **dict(Run.objects.filter(pk__in=missing).values_list("pk", "input_hash"))}
    found = {row.artifact_id: _sign_artifact(task, row, parts, inputs, signer) for row, parts in made}
    return {artifact_id: signature for artifact_id, signature in found.items() if signature}


def _sign_artifact(
    task: Task, row: Artifact, parts: list[JSON], inputs: Mapping[uuid.UUID, str], signer: signing.Signer
) -> JSON:
    claims = {
        "agent": identity.did_of(task.agent),
        "created": wire.timestamp(timezone.now()),
        "inputSnapshot": inputs.get(row.run, "") if row.run else "",
    }
    artifact = {"artifactId": row.artifact_id, "name": row.name, "parts": parts}
    try:
        payload = canonical(statement(artifact, claims, str(task.pk), task.context.context_id))
    except STATEMENT_ERRORS:
        log.warning("artifact %s of task %s has no canonical form, and stays unsigned", row.artifact_id, task.pk)
        return {}
    return {**claims, "signature": signer.sign(payload)}


def statement(
    artifact: JSON, claims: JSON, task_id: str, context_id: str, part_statement: PartStatement | None = None
) -> JSON:
    """The statement that is signed for an artifact, in its wire form or with parts as they are stored.

    `claims` come with the signature: `agent` (DID), `created`, `inputSnapshot` (SHA-256). `part_statement` is for
    artifacts of others, whose files are not here.
    """
    return {
        "agent": claims["agent"],
        "artifactId": artifact["artifactId"],
        "name": artifact.get("name", ""),
        "taskId": task_id,
        "contextId": context_id,
        "created": claims["created"],
        "inputSnapshot": claims["inputSnapshot"],
        "parts": [(part_statement or _part_statement)(part) for part in artifact["parts"]],
    }


def verify(row: Artifact) -> tuple[Verdict, SigningKey | None]:
    """The verdict on the signature of a recorded artifact, and the key that it names, if known.

    Reads the content again. Uses `row.task.context`.
    """
    if not row.signature:
        return Verdict.MISSING, None
    task_id, context_id = str(row.task_id), row.task.context.context_id
    verdict, key = _check(wire.stored_artifact(row), row.signature, task_id, context_id)
    if verdict == Verdict.GOOD and not (key and key.agent and _is_by_its_maker(key.agent, row)):
        return Verdict.BROKEN, key
    return verdict, key


def verdict_on(row: Artifact) -> Verdict:
    return examine(row).verdict


def _is_by_its_maker(signer: Agent, row: Artifact) -> bool:
    by_its_agent = signer.pk == row.task.agent_id
    return by_its_agent or (row.run is not None and Run.objects.filter(pk=row.run, agent=signer).exists())


def verdict_on_wire(artifact: JSON, task_id: str, context_id: str) -> Verdict:
    """The verdict on an artifact from outside, in the form of GetTask."""
    signature = _member(_member(artifact, "metadata"), cards.signature_extension_uri())
    if not signature:
        return Verdict.MISSING
    verdict, key = _check(artifact, signature, task_id, context_id)
    if verdict == Verdict.GOOD and not (key and key.agent and signature["agent"] == identity.did_of(key.agent)):
        return Verdict.BROKEN
    return verdict


def _check(artifact: JSON, signature: Any, task_id: str, context_id: str) -> tuple[Verdict, SigningKey | None]:
    key = None
    try:
        key = _signing_key(signature["signature"])
        if key is None:
            return Verdict.UNKNOWN_KEY, None
        payload = canonical(statement(artifact, signature, task_id, context_id))
        signing.verify(signature["signature"], payload, key.public, key.algorithm)
    except (BadSignature, *STATEMENT_ERRORS):
        return Verdict.BROKEN, key
    return Verdict.REVOKED if key.revoked_at else Verdict.GOOD, key


def _signing_key(signature: str) -> SigningKey | None:
    """The key that a signature names, if known. Raises BadSignature."""
    kid = str(signing.unverified_header(signature).get("kid"))
    known = SigningKey.objects.select_related("agent").defer("private")
    return known.filter(kid=kid).first() if KEY_ID.fullmatch(kid) else None


def foreign_part_statement(part: JSON, files: str) -> JSON:
    """What another installation signs of a part. Its own large files are links below `files`, named by their SHA-256.

    Raises STATEMENT_ERRORS.
    """
    if "stored" in part:
        raise ValueError("A part of others is never stored here.")
    name = part["url"].rpartition("/")[2] if "url" in part and part["url"].startswith(files) else None
    if name is None:
        return part if "url" in part else _part_statement(part)
    if not SHA256.fullmatch(name):
        raise ValueError("A file is named by its SHA-256.")
    return {"sha256": name, **{key: value for key, value in part.items() if key != "url"}}


def _part_statement(part: JSON) -> JSON:
    """The part; its SHA-256 replaces long content."""
    if len([name for name in CONTENT_FIELDS if name in part]) != 1:
        raise ValueError("A part has exactly one content.")
    content = _content(part)
    if len(content) <= INLINE_BYTES:
        return blobs.inline(part)
    rest = {name: value for name, value in part.items() if name not in CONTENT_FIELDS}
    return {"sha256": hashlib.sha256(content).hexdigest(), **rest}


def _content(part: JSON) -> bytes:
    """The hashed bytes: decoded `raw`, UTF-8 of `text`, RFC 8785 of `data`, or the file behind one of our own links."""
    if "raw" in part:
        return _decoded(part["raw"])
    if "text" in part:
        return str(part["text"]).encode()
    if "data" in part:
        return canonical(part["data"])
    if (sha256 := _stored_sha256(part)) is None:
        return b""
    content = blobs.content_of({"stored": {"sha256": sha256}})
    stored = part.get("stored", {})
    travels_as_json = stored.get("kind") == "data" and stored["size"] <= wire.MAX_INLINE_BYTES
    return canonical(json.loads(content)) if travels_as_json else content


def _decoded(raw: str) -> bytes:
    """Decode plain base64. Raises ValueError for any other spelling of the same bytes."""
    content = base64.b64decode(raw)
    if base64.b64encode(content).decode() != raw:
        raise ValueError("The content is not in plain base64.")
    return content


def _stored_sha256(part: JSON) -> str | None:
    """The name of the file with the content of a part that is stored, or that links to our own files.

    Raises ValueError for an invalid name.
    """
    name = part["stored"]["sha256"] if "stored" in part else _sha256_in_url(part["url"])
    if name is not None and not SHA256.fullmatch(name):
        raise ValueError("A stored content is named by its SHA-256.")
    return name


def _sha256_in_url(url: str) -> str | None:
    if not url.startswith(f"{settings.PUBLIC_BASE_URL}/"):
        return None
    try:
        found = resolve(url.removeprefix(settings.PUBLIC_BASE_URL))
    except Resolver404:
        return None
    return str(found.kwargs["sha256"]) if found.url_name == "file" else None


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
