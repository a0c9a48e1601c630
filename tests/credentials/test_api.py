"""A program gives its person's task the credential that it asks for, and nobody reads it again."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import CREDENTIALS, WRITE
from apps.agents.registration import register_hosted
from apps.credentials.models import Credential
from apps.engine import accept
from apps.record.execution import Run
from apps.record.models import Event, Task
from parley import db
from tests.clients.calling import Caller
from tests.working import carry_out

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "canary-8f3e11c2"


async def asking(person: User, said: Any) -> Task:
    agent = await db.run(register_hosted, "keyed", "tests.engine.calling_agents:Keyed", access="public")
    receipt = await db.run(accept.accept, person.principal, agent, said("open it"))
    await carry_out(receipt.run)
    task = await db.run(Task.objects.get, pk=receipt.task)
    assert task.state == "auth-required"
    return task


def state_of(task: Task) -> str:
    return Task.objects.get(pk=task.pk).state


async def test_a_credential_continues_the_task(ada_calls, bob_calls, ada, said):
    task = await asking(ada, said)
    address = f"/tasks/{task.pk}/credential"
    assert (await bob_calls.post(address, {"secret": SECRET})).status == 404
    assert (await ada_calls.post(address, {})).status == 422
    assert (await ada_calls.post(address, {"secret": SECRET})).status == 204
    await carry_out((await db.run(Run.objects.get, task=task.pk, state="queued")).pk)
    assert await db.run(state_of, task) == "completed"
    assert (await ada_calls.post(address, {"secret": SECRET})).status == 409
    kept = await db.run(
        lambda: f"{[*Event.objects.values_list('payload')]}{[*AuditEntry.objects.values_list('details')]}"
    )
    assert SECRET not in kept
    assert await db.run(lambda: Credential.objects.get().secret) == SECRET


async def test_giving_credentials_needs_a_scope_of_its_own(ada, said):
    task = await asking(ada, said)
    address = f"/tasks/{task.pk}/credential"
    for scope, status in ((WRITE, 403), (CREDENTIALS, 204)):
        _, key = await db.run(lambda scope=scope: ApiKey.issue(ada, scope, scopes=[scope]))
        assert (await Caller(key).post(address, {"secret": SECRET})).status == status
