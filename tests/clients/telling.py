"""Writes conversations into the record, as a worker would."""

from __future__ import annotations

import base64
import uuid
from typing import Any

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import accept
from apps.engine.accept import Receipt
from apps.record import ledger
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.ledger import Ledger

JSON = dict[str, Any]

FORMAT = {"type": "string", "title": "Format", "enum": ["PDF", "HTML"]}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def text(content: str, media_type: str = "text/plain", **more: Any) -> JSON:
    return {"text": content, "mediaType": media_type, **more}


def raw(content: bytes, media_type: str, **more: Any) -> JSON:
    return {"raw": base64.b64encode(content).decode(), "mediaType": media_type, **more}


def picture() -> JSON:
    return raw(PNG, "image/png")


def said(words: str, **more: Any) -> JSON:
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": words}], **more}


def begun(user: User, agent: Agent, words: str = "Begin", **more: Any) -> Receipt:
    return accept.accept(user.principal, agent, said(words, **more))


def finished(
    user: User, agent: Agent, artifacts: dict[str, JSON] | None = None, words: str = "Done.", **more: Any
) -> Receipt:
    receipt = begun(user, agent, **more)
    with ledger.writing(receipt.context) as log:
        work(log, receipt)
        for name, part in (artifacts or {}).items():
            chunk(log, receipt, name, part)
        log.add(EventType.AGENT_COMPLETE, {"artifacts": list(artifacts or {})}, task=receipt.task)
        status(log, receipt, "completed", words)
    return receipt


def streamed(user: User, agent: Agent, words: str) -> Receipt:
    """An answer that was streamed, and is repeated by the final message."""
    receipt = begun(user, agent)
    with ledger.writing(receipt.context) as log:
        work(log, receipt)
        token(log, receipt, "", EventType.AGENT_TOKEN_START)
        token(log, receipt, words)
        token(log, receipt, "", EventType.AGENT_TOKEN_END)
        log.add(EventType.AGENT_COMPLETE, {"artifacts": ["answer"]}, task=receipt.task)
        status(log, receipt, "completed", words)
    return receipt


def failed(user: User, agent: Agent, words: str = "It broke.") -> Receipt:
    receipt = begun(user, agent)
    with ledger.writing(receipt.context) as log:
        work(log, receipt)
        log.add(EventType.AGENT_FAILED, {"code": "failed", "discarded": []}, task=receipt.task)
        status(log, receipt, "failed", words)
    return receipt


def asked(user: User, agent: Agent, slot: JSON, words: str = "Which format?", **more: Any) -> Receipt:
    receipt = begun(user, agent, **more)
    with ledger.writing(receipt.context) as log:
        work(log, receipt)
        status(log, receipt, "input-required", words, slot=slot)
    return receipt


def work(log: Ledger, receipt: Receipt) -> None:
    start = {"attempt": 1, "turn": 1, "messageId": "first"}
    log.add(EventType.AGENT_START, start, task=receipt.task)
    log.add(EventType.AGENT_STATUS, {"state": "working"}, task=receipt.task)


def status(log: Ledger, receipt: Receipt, state: str, words: str, **more: Any) -> None:
    Run.objects.filter(task=receipt.task).update(state=Run.State.DONE)
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_AGENT", "parts": [{"text": words}]}
    said = {"state": state, "message": message, "agent": log.task(receipt.task).agent_id, **more}
    log.add(EventType.AGENT_STATUS, said, task=receipt.task)


def chunk(log: Ledger, receipt: Receipt, name: str, part: JSON, *, append: bool = False, last: bool = True) -> None:
    payload = {"artifact": {"artifactId": name, "name": name, "parts": [part]}, "append": append, "lastChunk": last}
    log.add(EventType.ARTIFACT_UPDATE, payload, task=receipt.task, artifact_id=name)


def token(
    log: Ledger, receipt: Receipt, words: str, type_: EventType = EventType.AGENT_TOKEN, artifact_id: str = "answer"
) -> None:
    payload = {"artifactId": artifact_id, "name": artifact_id, "text": words}
    log.add(type_, payload, task=receipt.task, artifact_id=artifact_id)
