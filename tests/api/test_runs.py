"""What the owner of a task is told of its runs, and nobody else."""

from __future__ import annotations

import uuid

import pytest

import bridge
from agentkit import Completed, Failed
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations import intake
from apps.conversations.models import Run
from apps.runtime.breaking import BROKEN
from tests.api.calling import Caller
from tests.api.shaped import check
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_run_says_who_worked_by_which_version_and_what_came_of_it(
    ada_calls: Caller, ada: User, echo: Agent, said
) -> None:
    receipt = await bridge.run(intake.accept, ada.principal, echo, said())
    queued = check(await ada_calls.get(f"/runs/{receipt.run}"), "runs_retrieve")
    assert (queued["state"], queued["attempt"], queued["startedAt"], queued["inputHash"]) == ("queued", 0, None, "")
    await bridge.run(lambda: end(begin(receipt.run), Completed("done")))
    done = check(await ada_calls.get(f"/runs/{receipt.run}"), "runs_retrieve")
    assert (done["state"], done["attempt"], done["turn"], done["agent"]) == ("done", 1, 1, "echo")
    assert done["taskId"] == str(receipt.task)
    assert done["sessionId"] == str(receipt.context)
    assert done["agentVersion"] == 1
    assert len(done["inputHash"]) == 64
    assert done["startedAt"] <= done["finishedAt"]
    assert (done["options"], done["usage"], done["error"]) == ({}, {}, None)


async def test_a_run_says_what_the_agent_said_when_it_failed(ada_calls: Caller, ada: User, echo: Agent, said) -> None:
    receipt = await bridge.run(intake.accept, ada.principal, echo, said())
    await bridge.run(lambda: end(begin(receipt.run), Failed("No paper.", "paper")))
    run = check(await ada_calls.get(f"/runs/{receipt.run}"), "runs_retrieve")
    assert (run["state"], run["error"]) == ("failed", {"code": "paper", "message": "No paper."})


async def test_what_broke_in_an_agents_code_is_for_operators(ada_calls: Caller, ada: User, echo: Agent, said) -> None:
    receipt = await bridge.run(intake.accept, ada.principal, echo, said())
    error = {"code": "error", "message": "KeyError: 'secret'", "traceback": "at line 7"}
    await bridge.run(lambda: end(begin(receipt.run), Failed(BROKEN, "error"), error=error))
    answer = await ada_calls.get(f"/runs/{receipt.run}")
    assert check(answer, "runs_retrieve")["error"] == {"code": "error", "message": BROKEN}
    assert b"secret" not in answer.content


async def test_somebody_elses_run_is_not_found(
    bob_calls: Caller, anybody: Caller, ada: User, echo: Agent, said
) -> None:
    receipt = await bridge.run(intake.accept, ada.principal, echo, said())
    for run in (receipt.run, uuid.uuid4(), "none"):
        answer = await bob_calls.get(f"/runs/{run}")
        assert (answer.status, answer.code) == (404, "not_found")
    assert (await anybody.get(f"/runs/{receipt.run}")).status == 401
    assert await bridge.run(Run.objects.count) == 1
