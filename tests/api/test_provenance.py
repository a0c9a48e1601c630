"""What led to an artifact, by the client API: for its owner alone, in the shape that the schema promises."""

from __future__ import annotations

import uuid

import pytest

import bridge
from agentkit import Artifact
from apps.accounts.models import User
from apps.agents.models import Agent
from tests.api.calling import Caller
from tests.api.delivering import Said, delivered
from tests.api.shaped import check

pytestmark = pytest.mark.django_db(transaction=True)


async def test_what_led_to_an_artifact_is_a_graph_in_terms_of_prov(
    ada_calls: Caller, ada: User, echo: Agent, said: Said
) -> None:
    given = {"text": "a,b\n1,2\n", "filename": "data.csv", "mediaType": "text/csv"}
    first = await bridge.run(delivered, ada, echo, said(parts=[{"text": "Look"}, given]))
    made = [Artifact([{"text": "two"}], name="Two", artifact_id="a/b c")]
    second = await bridge.run(delivered, ada, echo, said(referenceTaskIds=[str(first.task)]), made)
    found = check(await ada_calls.get(f"/artifacts/{second.task}/a/b c/provenance"), "artifacts_provenance")
    assert found["artifact"] == found["nodes"][0]["id"] == f"artifact:{second.task}/a/b c"
    assert (found["nodes"][0]["name"], found["nodes"][0]["prov"], found["truncated"]) == ("Two", "entity", False)
    links = {(one["from"], one["kind"], one["relation"], one["to"]) for one in found["edges"]}
    assert (found["artifact"], "delivered_by", "wasGeneratedBy", f"task:{second.task}") in links
    assert (f"task:{second.task}", "refers_to", "wasInformedBy", f"task:{first.task}") in links
    assert (f"task:{second.task}", "refers_to", "used", f"artifact:{first.task}/one") in links
    [file] = [node for node in found["nodes"] if node["kind"] == "file"]
    assert (file["name"], file["details"]["mediaType"], file["details"]["size"]) == ("data.csv", "text/csv", 8)
    assert (f"task:{first.task}", "given", "used", file["id"]) in links


async def test_somebody_elses_artifact_is_not_found(
    ada_calls: Caller, bob_calls: Caller, anybody: Caller, ada: User, echo: Agent, said: Said
) -> None:
    done = await bridge.run(delivered, ada, echo, said())
    address = f"/artifacts/{done.task}/one/provenance"
    assert (await ada_calls.get(address)).status == 200
    assert ((await bob_calls.get(address)).status, (await anybody.get(address)).status) == (404, 401)
    for other in (f"/artifacts/{done.task}/two/provenance", f"/artifacts/{uuid.uuid4()}/one/provenance"):
        assert (await ada_calls.get(other)).status == 404
