"""The client API runs a session again and compares it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.automation import reruns
from tests.api.calling import Caller
from tests.engine.delegating import until
from tests.working import worked_on

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_session_is_run_again_and_compared(
    ada_calls: Caller, ada: User, echo: Agent, said: Any, worker: None
) -> None:
    source = (await worked_on(ada.principal, echo, said("a fox"))).context_id
    made = await ada_calls.post(f"/sessions/{source}/rerun", {}, Idempotency_Key="k")
    assert made.status == 201, made.body
    repeated = await ada_calls.post(f"/sessions/{source}/rerun", {}, Idempotency_Key="k")
    assert (repeated.status, repeated.body["id"]) == (200, made.body["id"])
    again = uuid.UUID(made.body["id"])
    await until(lambda: reruns.compare(ada.principal, again).is_finished)
    told = (await ada_calls.get(f"/sessions/{again}/comparison")).body
    [turn] = told["turns"]
    assert (told["sourceId"], turn["message"], turn["sameInput"]) == (str(source), "a fox", True)
    assert (turn["after"]["agent"], turn["after"]["answer"]) == ("echo", "a fox")
    assert (await ada_calls.get(f"/sessions/{source}/comparison")).status == 404
