"""A task's owner sees its runs and an artifact's provenance."""

from __future__ import annotations

import pytest

from agentkit import Completed, Failed
from apps.engine.output import AGENT_ERROR_MESSAGE
from parley import db
from tests.clients.calling import Caller
from tests.clients.delivering import Making
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)


async def test_run_has_agent_version_times_and_result(ada_calls: Caller, made: Making) -> None:
    receipt = await made.sent()
    queued = (await ada_calls.get(f"/runs/{receipt.run}")).body
    assert (queued["state"], queued["attempt"], queued["startedAt"], queued["inputHash"]) == ("queued", 0, None, "")
    await db.run(lambda: end(begin(receipt.run), Completed("done")))
    done = (await ada_calls.get(f"/runs/{receipt.run}")).body
    assert (done["state"], done["attempt"], done["turn"], done["agent"]) == ("done", 1, 1, "echo")
    assert (done["taskId"], done["sessionId"]) == (str(receipt.task), str(receipt.context))
    assert (done["agentVersion"], len(done["inputHash"])) == (1, 64)
    assert done["startedAt"] <= done["finishedAt"]
    assert (done["options"], done["usage"], done["error"]) == ({}, {}, None)


async def test_failed_run_hides_what_is_for_operators(ada_calls: Caller, made: Making) -> None:
    failed, broke = await made.sent(), await made.sent()
    await db.run(lambda: end(begin(failed.run), Failed("No paper.", "paper")))
    run = (await ada_calls.get(f"/runs/{failed.run}")).body
    assert (run["state"], run["error"]) == ("failed", {"code": "paper", "message": "No paper."})
    error = {"code": "error", "message": "KeyError: 'secret'", "traceback": "at line 7"}
    await db.run(lambda: end(begin(broke.run), Failed(AGENT_ERROR_MESSAGE, "error"), error=error))
    answer = await ada_calls.get(f"/runs/{broke.run}")
    assert answer.body["error"] == {"code": "error", "message": AGENT_ERROR_MESSAGE}
    assert b"secret" not in answer.content
    assert (await ada_calls.get("/runs/none")).code == "not_found"
