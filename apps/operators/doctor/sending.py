"""A message from outside, as an agent's client sends it: through the proxy to an agent, to a worker, and back.

It has a person, an agent and a key of its own, which others do not see, and which are deleted afterwards with all rows.
What a killed command left is deleted by the next one.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import secrets
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.keys import record_new_key
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import PRESETS
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.operators.doctor import calls
from apps.operators.doctor.calls import Reply
from apps.operators.doctor.examination import Finding, Patient, ok, problem
from apps.record import ledger
from apps.record.models import Context
from parley.db.sql import write_transaction
from parley.outbound import OutboundError, TooSlow

SECONDS = 20.0  # for an answer
KEPT = datetime.timedelta(minutes=5)  # longer than any examination
DOMAIN = "doctor.invalid"  # of its persons' addresses
HANDLER = "apps.operators.probes:Listener"
UNAUTHORIZED = 401


def send(patient: Patient) -> Finding:
    """Does a message come back as a completed task?"""
    word = secrets.token_hex(4)
    with caller() as (slug, key):
        try:
            reply = asyncio.run(_sent(patient, slug, key, word))
        except TooSlow:
            text = f"A message had no answer within {SECONDS:g} s."
            return problem(text, "See the lines about workers, queue, broker and channel layer, and the workers' log.")
        except OutboundError as error:
            return problem(f"A message was not answered. {error}", "Look at the logs of proxy and web processes.")
    return _judged(reply, word)


async def _sent(patient: Patient, slug: str, key: str, word: str) -> Reply:
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": word}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = {"Authorization": f"Bearer {key}", "A2A-Version": "1.0", "Content-Type": "application/json"}
    async with calls.exchange(patient, SECONDS) as way:
        url = f"{patient.url}/a2a/{slug}"
        return await calls.fetch(way, url, headers, method="POST", content=json.dumps(body).encode())


def _judged(reply: Reply, word: str) -> Finding:
    task: dict[str, Any] = reply.json.get("result", {}).get("task", {})
    status: dict[str, Any] = task.get("status", {})
    if status.get("state") == "TASK_STATE_COMPLETED" and word in json.dumps(task.get("artifacts")):
        return ok("A message reached a worker, and its answer came back.")
    if reply.status == UNAUTHORIZED:
        text = "A new API key is refused: the proxy drops or changes Authorization, or the database is another one."
        return problem(text, "Let the proxy pass Authorization on, and give all processes one DATABASE_URL.")
    if reply.location:
        text = f"A message is redirected to {reply.location}."
        return problem(text, "Set PUBLIC_BASE_URL to the address that answers.")
    error = reply.json.get("error")
    parts = [error] if isinstance(error, dict) else status.get("message", {}).get("parts", [])
    said = " ".join(part.get("message") or part.get("text", "") for part in parts)
    state = status.get("state", f"status {reply.status}")
    advice = "Look at the workers' log. Web processes and workers must run this version."
    return problem(f"A message was not answered ({state}). {said}".strip(), advice)


@contextmanager
def caller() -> Iterator[tuple[str, str]]:
    """The slug of an agent that answers, and a key that reaches it, while the block runs."""
    delete_callers(before=timezone.now() - KEPT)
    slug = f"doctor-{secrets.token_hex(6)}"
    person = User(email=f"{slug}@{DOMAIN}", name="Doctor")
    person.set_unusable_password()
    try:
        with write_transaction():
            User.objects.add(person)
            own = {"owner": person, "workspace": person.personal_workspace, "access": Agent.Access.OWNER}
            register_hosted(slug, HANDLER, **own)
            key, text = ApiKey.issue(person, "doctor", scopes=list(PRESETS["call"]), agents=[slug], lifetime=KEPT)
            record_new_key(key)
        yield slug, text
    finally:
        delete_callers(email=person.email)


def delete_callers(*, email: str = "", before: datetime.datetime | None = None) -> None:
    """Delete the doctor's persons with all that is theirs: the one with this address, or those from before a time."""
    own = User.objects.filter(email__startswith="doctor-", email__endswith=f"@{DOMAIN}")
    for person in own.filter(email=email) if email else own.filter(date_joined__lt=before):
        with write_transaction():
            if contexts := list(Context.objects.select_for_update().filter(owner=person)):
                ledger.erase_contexts(contexts)
            for context in contexts:
                context.delete()
            Agent.objects.filter(owner=person).delete()
            keys = list(person.api_keys.all())
            person.delete()
            for key in keys:
                audit.record(AuditAction.KEY_DELETED, object=key)
