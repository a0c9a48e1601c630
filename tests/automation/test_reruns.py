"""A session's messages go again to another agent or version, and the answers are compared."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.automation import reruns
from apps.conversations.queue.models import QueuedMessage
from apps.conversations.sessions.commands import create_session
from apps.engine import accept
from apps.record.errors import ContextNotFound
from apps.record.models import Task
from parley import db
from tests.engine.approving import SENT
from tests.engine.delegating import until
from tests.working import carry_out, worked_on

pytestmark = [pytest.mark.django_db(transaction=True)]


async def told(person: User, agent: Agent, message: dict[str, Any]) -> Task:
    return await worked_on(person.principal, agent, message)


async def compared(person: User, session: Any) -> reruns.Comparison:
    await until(lambda: reruns.compare(person.principal, session.pk).is_finished)
    return await db.run(reruns.compare, person.principal, session.pk)


@pytest.fixture
def wondering(db):
    return register_hosted("wondering", "tests.engine.approving:Wondering", access="public")


async def test_messages_and_answers_go_again_in_order(ada, echo, wondering, said, worker):
    task = await told(ada, wondering, said("A river"))
    await told(ada, wondering, said("blue", taskId=str(task.pk)))
    again, _ = await db.run(reruns.start, ada.principal, task.context_id)
    found = await compared(ada, again)
    assert [(one.words, one.same_input, one.same_answer) for one in found.turns] == [
        ("A river", True, True),
        ("blue", True, True),
    ]
    by_echo, _ = await db.run(reruns.start, ada.principal, task.context_id, echo)
    found = await compared(ada, by_echo)
    first, second = found.turns
    assert (first.same_input, first.same_answer, first.after.text) == (True, False, "A river")
    assert second.after is None, "Echo asks nothing"


async def test_nobody_is_asked_to_approve_by_it(ada, said, worker):
    SENT.clear()
    agent = await db.run(register_hosted, "obedient", "tests.engine.approving:Obedient", access="public")
    task = await told(ada, agent, said("delete_all"))
    await told(ada, agent, said(taskId=str(task.pk), parts=[{"data": {"decision": "approve"}}]))
    assert len(SENT) == 1
    again, _ = await db.run(reruns.start, ada.principal, task.context_id)
    await until(lambda: Task.objects.filter(context=again, state="input-required").exists())
    assert len(SENT) == 1
    assert await db.run(QueuedMessage.objects.filter(context=again).count) == 1
    found = await db.run(reruns.compare, ada.principal, again.pk)
    assert found.held
    assert not found.is_finished


async def test_one_key_makes_one_rerun(ada, bob, echo, said):
    receipt = await db.run(accept.accept, ada.principal, echo, said("once"))
    await carry_out(receipt.run)
    task = await db.run(Task.objects.get, pk=receipt.task)
    first, is_new = await db.run(reruns.start, ada.principal, task.context_id, key="k")
    again, is_newer = await db.run(reruns.start, ada.principal, task.context_id, key="k")
    assert (first.pk == again.pk, is_new, is_newer) == (True, True, False)
    assert await db.run(QueuedMessage.objects.filter(context=first).count) == 1
    with pytest.raises(ContextNotFound):
        await db.run(reruns.start, bob.principal, task.context_id)
    with pytest.raises(ContextNotFound):
        await db.run(reruns.compare, bob.principal, first.pk)


async def test_rerun_of_temporary_session_is_temporary(ada, echo, said):
    source = (await db.run(create_session, ada.principal, echo, temporary=True)).context
    receipt = await db.run(accept.accept, ada.principal, echo, said("once", contextId=source.context_id))
    await carry_out(receipt.run)
    again, _ = await db.run(reruns.start, ada.principal, source.pk)
    assert again.is_temporary
