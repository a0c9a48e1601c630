"""A task's owner sees its runs and an artifact's provenance."""

from __future__ import annotations

import pytest

from agentkit import Artifact, Completed, Failed
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


async def test_provenance_is_a_graph_of_prov(ada_calls: Caller, made: Making) -> None:
    given = {"text": "a,b\n1,2\n", "filename": "data.csv", "mediaType": "text/csv"}
    first = await made.delivered(parts=[{"text": "Look"}, given])
    two = Artifact([{"text": "two"}], name="Two", artifact_id="a/b c")
    second = await made.delivered(two, referenceTaskIds=[str(first.task)])
    found = (await ada_calls.get(f"/artifacts/{second.task}/a/b c/provenance")).body
    assert found["artifact"] == found["nodes"][0]["id"] == f"artifact:{second.task}/a/b c"
    assert (found["nodes"][0]["name"], found["nodes"][0]["prov"], found["truncated"]) == ("Two", "entity", False)
    [file] = [node for node in found["nodes"] if node["kind"] == "file"]
    assert (file["name"], file["details"]["mediaType"], file["details"]["size"]) == ("data.csv", "text/csv", 8)
    assert {(one["from"], one["kind"], one["relation"], one["to"]) for one in found["edges"]} >= {
        (found["artifact"], "delivered_by", "wasGeneratedBy", f"task:{second.task}"),
        (f"task:{second.task}", "refers_to", "wasInformedBy", f"task:{first.task}"),
        (f"task:{second.task}", "refers_to", "used", f"artifact:{first.task}/one"),
        (f"task:{first.task}", "given", "used", file["id"]),
    }
    assert (await ada_calls.get(f"/artifacts/{second.task}/other/provenance")).code == "not_found"
