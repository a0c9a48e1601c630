"""Runs of plans by the client API: started once, followed to the end, answered, held back and run again."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

import bridge
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import READ
from apps.agents.models import Agent
from apps.conversations.models import Task
from apps.orchestration.opening import begin
from tests.api.calling import Caller
from tests.api.counting import statements
from tests.orchestration.plan_agents import DONE, GATE
from tests.runtime.delegating import until

pytestmark = [pytest.mark.django_db(transaction=True)]

JSON = dict[str, Any]
Plan = Callable[..., Agent]
TOPIC = {"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}}
TWO: JSON = {
    "first": {"agent": "loud", "title": "The first", "message": "{{ inputs.topic }}"},
    "second": {"agent": "counting", "message": "{{ steps.first.text }}"},
}
ASKS: JSON = {"ask": {"agent": "curious", "title": "The question", "message": "the door"}}


async def started(caller: Caller, **fields: Any) -> JSON:
    """A run, once it has ended or asks something."""
    body = {"plan": "plan", "inputs": {"topic": "bees"}, "wait": True, **fields}
    told: JSON = (await caller.post("/plans/runs", body)).body["run"]
    return told


async def run_of(caller: Caller, run: str) -> JSON:
    told: JSON = (await caller.get(f"/plans/runs/{run}")).body
    return told


@pytest.mark.usefixtures("worker")
async def test_a_plan_is_started_and_followed_to_its_end(ada_calls: Caller, plan: Plan) -> None:
    await bridge.run(lambda: plan(TWO, inputs=TOPIC))
    run = await started(ada_calls)
    assert (run["state"], run["plan"], run["planVersion"]) == ("completed", "plan", 1)
    assert (run["stepsDone"], run["stepsTotal"], run["isPaused"]) == (2, 2, False)
    assert run["createdAt"] <= run["beganAt"] <= run["finishedAt"]
    assert run["inputs"] == {"topic": "bees", "text": "", "files": []}
    first, second = run["steps"]
    assert (first["key"], first["title"], first["state"], first["agent"]) == ("first", "The first", "done", "loud")
    assert (second["dependsOn"], len(second["artifacts"])) == (["first"], 1)
    assert (await ada_calls.get(f"/artifacts/{second['artifacts'][0]}")).body["name"] == "count"
    assert run["task"]["id"] == run["id"]
    [listed] = (await ada_calls.get("/plans/runs?plan=plan&state=completed")).body["items"]
    assert (listed["id"], listed["stepsDone"]) == (run["id"], 2)
    assert (await ada_calls.get("/plans/runs?state=failed")).body["items"] == []


@pytest.mark.usefixtures("worker")
async def test_who_waits_again_under_the_same_key_gets_the_run_that_has_ended(ada_calls: Caller, plan: Plan) -> None:
    await bridge.run(lambda: plan(TWO, inputs=TOPIC))
    body = {"plan": "plan", "inputs": {"topic": "bees"}, "wait": True}
    first = await ada_calls.post("/plans/runs", body, idempotency_key="once")
    again = await ada_calls.post("/plans/runs", body, idempotency_key="once")
    assert (first.status, again.status) == (201, 200)
    assert (first.body["repeated"], again.body["repeated"]) == (False, True)
    assert first.body["run"]["finishedAt"] == first.body["run"]["updatedAt"], "whoever waited is told when it ended"
    assert again.body["run"] == first.body["run"]
    assert DONE["loud:bees"] == 1


@pytest.mark.usefixtures("worker")
async def test_words_and_files_are_inputs_too(ada_calls: Caller, plan: Plan) -> None:
    await bridge.run(
        lambda: plan({"one": {"agent": "loud", "message": "{{ inputs.text }}", "attach": ["inputs.files"]}})
    )
    file = {"raw": base64.b64encode(b"a,b\n").decode(), "filename": "t.csv", "mediaType": "text/csv"}
    run = await started(ada_calls, inputs={}, text="read it", files=[file])
    assert (run["state"], run["inputs"]["text"]) == ("completed", "read it")
    assert [one["filename"] for one in run["inputs"]["files"]] == ["t.csv"]
    made = (await ada_calls.get(f"/artifacts/{run['steps'][0]['artifacts'][0]}")).body["parts"]
    assert [part.get("filename") for part in made] == [None, "t.csv"]
    refused = await ada_calls.post("/plans/runs", {"plan": "plan", "files": [file, {"text": "words"}]})
    assert (refused.code, refused.fields) == ("invalid", ["files[1]"])


@pytest.mark.usefixtures("worker")
async def test_any_task_leads_to_its_plan_and_back(ada_calls: Caller, echo: Agent, plan: Plan) -> None:
    await bridge.run(lambda: plan(TWO, inputs=TOPIC))
    run = await started(ada_calls)
    child = run["steps"][0]["taskId"]
    place = (await ada_calls.get(f"/tasks/{child}/plan")).body
    assert (place["runId"], place["plan"]) == (run["id"], "plan")
    assert place["step"] == run["steps"][0]
    whole = (await ada_calls.get(f"/tasks/{run['id']}/plan")).body
    assert (whole["runId"], whole["step"]) == (run["id"], None)
    other = (await ada_calls.post("/sessions", {"agent": "echo", "message": {"text": "hi"}})).body["task"]["id"]
    assert (await ada_calls.get(f"/tasks/{other}/plan")).code == "not_found"


async def test_the_same_key_starts_a_plan_once_and_is_for_nothing_else(ada_calls: Caller, plan: Plan) -> None:
    await bridge.run(lambda: plan(TWO, inputs=TOPIC))
    body = {"plan": "plan", "inputs": {"topic": "bees"}}
    first = await ada_calls.post("/plans/runs", body, idempotency_key="once")
    again = await ada_calls.post("/plans/runs", body, idempotency_key="once")
    assert (first.status, first.body["repeated"]) == (201, False)
    assert (again.status, again.body["repeated"], again.body["run"]["id"]) == (200, True, first.body["run"]["id"])
    other = await ada_calls.post("/plans/runs", {**body, "inputs": {"topic": "wasps"}}, idempotency_key="once")
    assert (other.code, other.fields) == ("invalid", ["Idempotency-Key"])
    assert await bridge.run(Task.objects.count) == 1


async def test_a_key_that_started_one_plan_starts_no_other(ada_calls: Caller, bob_calls: Caller, plan: Plan) -> None:
    for slug in ("plan", "other"):
        await bridge.run(lambda slug=slug: plan(TWO, slug=slug, inputs=TOPIC))
    body = {"plan": "plan", "inputs": {"topic": "bees"}}
    assert (await ada_calls.post("/plans/runs", body, idempotency_key="once")).status == 201
    other = await ada_calls.post("/plans/runs", {**body, "plan": "other"}, idempotency_key="once")
    assert (other.status, other.fields) == (422, ["Idempotency-Key"])
    assert await bridge.run(Task.objects.count) == 1
    assert (await ada_calls.post("/plans/runs", body, idempotency_key="once")).status == 200
    assert (await bob_calls.post("/plans/runs", {**body, "plan": "other"}, idempotency_key="once")).status == 201


async def test_who_may_not_wait_has_started_nothing(ada_calls: Caller, plan: Plan, settings: Any) -> None:
    await bridge.run(lambda: plan(TWO, inputs=TOPIC))
    settings.STREAMS_PER_CALLER = 0
    body = {"plan": "plan", "inputs": {"topic": "bees"}}
    assert (await ada_calls.post("/plans/runs", {**body, "wait": True})).status == 429
    assert await bridge.run(Task.objects.count) == 0
    assert (await ada_calls.post("/plans/runs", body)).status == 201


@pytest.mark.parametrize(
    ("inputs", "path"),
    [({}, "inputs.topic"), ({"topic": 5}, "inputs.topic"), ({"topic": "x", "place": {}}, "inputs.place.x")],
)
async def test_inputs_that_do_not_fit_are_refused_by_their_paths(
    ada_calls: Caller,
    plan: Plan,
    inputs: JSON,
    path: str,
) -> None:
    place = {"type": "object", "properties": {"x": {"type": "string"}}}
    schema = {**TOPIC, "properties": {**TOPIC["properties"], "place": place}}  # type: ignore[dict-item]
    await bridge.run(lambda: plan(TWO, inputs=schema))
    given = {**inputs, "place": {"x": 1}} if "place" in inputs else inputs
    answer = await ada_calls.post("/plans/runs", {"plan": "plan", "inputs": given})
    assert (answer.code, answer.fields) == ("invalid", [path])
    assert await bridge.run(Task.objects.count) == 0


async def test_a_plan_over_an_agent_that_is_for_others_is_not_started(
    ada_calls: Caller,
    bob: User,
    plan: Plan,
) -> None:
    await bridge.run(lambda: plan(TWO, inputs=TOPIC))
    home = await bridge.run(lambda: bob.personal_workspace)
    await bridge.run(Agent.objects.filter(slug="loud").update, access="workspace", workspace=home)
    answer = await ada_calls.post("/plans/runs", {"plan": "plan", "inputs": {"topic": "bees"}})
    assert (answer.code, answer.fields) == ("invalid", ["steps.first.agent"])
    assert await bridge.run(Task.objects.count) == 0


async def test_somebody_elses_run_is_not_found(ada_calls: Caller, bob_calls: Caller, plan: Plan) -> None:
    await bridge.run(lambda: plan(TWO, inputs=TOPIC))
    run = (await started(ada_calls, wait=False))["id"]
    assert (await bob_calls.get("/plans/runs")).body["items"] == []
    for path in ("", "/picture"):
        assert (await bob_calls.get(f"/plans/runs/{run}{path}")).code == "not_found"
    for act in ("pause", "resume", "cancel", "again"):
        assert (await bob_calls.post(f"/plans/runs/{run}/{act}", {} if act == "again" else None)).code == "not_found"
    assert (await bob_calls.get(f"/tasks/{run}/plan")).code == "not_found"
    assert (await bob_calls.get(f"/plans/questions?run={run}")).code == "not_found"
    assert (await run_of(ada_calls, run))["state"] == "submitted"


async def test_a_task_that_is_no_run_is_none_here(ada_calls: Caller, echo: Agent) -> None:
    task = (await ada_calls.post("/sessions", {"agent": "echo", "message": {"text": "hi"}})).body["task"]["id"]
    assert (await ada_calls.get(f"/plans/runs/{task}")).code == "not_found"


async def test_a_key_that_reads_may_look_and_not_act(ada: User, ada_calls: Caller, plan: Plan) -> None:
    await bridge.run(lambda: plan(TWO, inputs=TOPIC))
    run = (await started(ada_calls, wait=False))["id"]
    _, key = await bridge.run(lambda: ApiKey.issue(ada, "reads", scopes=[READ]))
    reads = Caller(key)
    assert (await run_of(reads, run))["id"] == run
    for act in ("pause", "resume", "cancel", "again"):
        assert (await reads.post(f"/plans/runs/{run}/{act}", {} if act == "again" else None)).code == "forbidden"


async def test_a_run_that_has_not_begun_cannot_be_held_back_and_can_be_stopped(
    ada_calls: Caller,
    plan: Plan,
) -> None:
    await bridge.run(lambda: plan(TWO, inputs=TOPIC))
    run = (await started(ada_calls, wait=False))["id"]
    assert (await ada_calls.post(f"/plans/runs/{run}/pause")).code == "conflict"
    assert (await ada_calls.get(f"/plans/runs/{run}/picture")).code == "not_found"
    assert (await ada_calls.post(f"/plans/runs/{run}/cancel")).body["state"] == "canceled"
    assert (await ada_calls.post(f"/plans/runs/{run}/cancel")).status == 200


@pytest.mark.usefixtures("worker")
async def test_what_a_step_asks_is_listed_and_answered(
    ada_calls: Caller,
    bob_calls: Caller,
    plan: Plan,
) -> None:
    await bridge.run(lambda: plan(ASKS))
    run = await started(ada_calls, inputs={})
    assert run["state"] == "input-required"
    assert run["reasons"][0]["isYours"]
    assert run["reasons"][0]["taskId"] == run["steps"][0]["taskId"]
    [asked] = (await ada_calls.get("/plans/questions")).body["items"]
    assert (asked["runId"], asked["step"], asked["title"]) == (run["id"], "ask", "The question")
    assert asked["content"] == "Which colour for the door?"
    assert asked["question"]["schema"]["required"] == ["colour"]
    assert (await bob_calls.get("/plans/questions")).body["items"] == []
    answer = {"data": {"colour": "green"}}
    assert (await ada_calls.post(f"/tasks/{asked['taskId']}/answer", answer)).status == 202
    await until(lambda: Task.objects.get(pk=run["id"]).state == "completed")
    assert (await ada_calls.get("/plans/questions")).body["items"] == []


@pytest.mark.usefixtures("worker")
async def test_a_run_is_held_back_and_goes_on(ada_calls: Caller, plan: Plan) -> None:
    steps = {
        "wait": {"agent": "patient", "message": "x"},
        "then": {"agent": "loud", "message": "{{ steps.wait.text }}"},
    }
    await bridge.run(lambda: plan(steps))
    run = (await started(ada_calls, inputs={}, wait=False))["id"]
    await until(lambda: DONE["patient"])
    paused = (await ada_calls.post(f"/plans/runs/{run}/pause")).body
    assert (paused["isPaused"], paused["state"]) == (True, "working")
    assert (await ada_calls.post(f"/plans/runs/{run}/pause")).status == 200
    GATE.set()
    await until(lambda: Task.objects.filter(parent=run, state="completed").exists())
    assert {one["key"]: one["state"] for one in (await run_of(ada_calls, run))["steps"]}["then"] == "waiting"
    resumed = (await ada_calls.post(f"/plans/runs/{run}/resume")).body
    assert not resumed["isPaused"]
    await until(lambda: Task.objects.get(pk=run).state == "completed")
    assert (await ada_calls.post(f"/plans/runs/{run}/pause")).code == "conflict"


@pytest.mark.usefixtures("worker")
async def test_a_run_that_failed_goes_on_where_it_failed(ada_calls: Caller, plan: Plan) -> None:
    steps = {
        "first": {"agent": "loud", "message": "x"},
        "glass": {"agent": "brittle", "message": "1", "depends_on": ["first"]},
    }
    await bridge.run(lambda: plan(steps))
    failed = await started(ada_calls, inputs={})
    assert (failed["state"], failed["steps"][1]["state"]) == ("failed", "failed")
    assert "broken" in failed["steps"][1]["why"]
    path = f"/plans/runs/{failed['id']}/again"
    answer = await ada_calls.post(path, {}, idempotency_key="again")
    again = answer.body["run"]
    assert (answer.status, (await ada_calls.post(path, {}, idempotency_key="again")).status) == (201, 200)
    await until(lambda: Task.objects.get(pk=again["id"]).state == "completed")
    told = await run_of(ada_calls, again["id"])
    assert (told["continuesRun"], told["continuesFrom"]) == (failed["id"], "glass")
    assert [one["isKept"] for one in told["steps"]] == [True, False]
    assert DONE == {"loud:x": 1, "brittle:1": 2}
    chosen = (await ada_calls.post(f"/plans/runs/{again['id']}/again", {"step": "first"})).body["run"]
    await until(lambda: Task.objects.get(pk=chosen["id"]).state == "completed")
    assert DONE["loud:x"] == 2
    assert (await ada_calls.post(path, {"step": "nowhere"})).code == "conflict"


@pytest.mark.usefixtures("worker")
async def test_a_run_is_drawn_as_a_graph_and_in_time(ada_calls: Caller, plan: Plan) -> None:
    await bridge.run(lambda: plan(TWO, inputs={**TOPIC, "properties": {"topic": {"type": "string"}}}))
    run = await started(ada_calls)
    for kind in ("graph", "time"):
        answer = await ada_calls.get(f"/plans/runs/{run['id']}/picture?kind={kind}")
        drawn = ElementTree.fromstring(answer.content)
        assert "The first" in "".join(drawn.itertext())
        signs = {one.get("id") for one in drawn.iter("{http://www.w3.org/2000/svg}symbol")}
        used = {one.get("href") for one in drawn.iter("{http://www.w3.org/2000/svg}use")}
        assert used
        assert used <= {f"#{sign}" for sign in signs}
    assert (await ada_calls.get(f"/plans/runs/{run['id']}/picture?kind=cake")).fields == ["kind"]


async def test_a_run_of_many_steps_takes_as_many_questions_of_the_database_as_one_of_few(
    ada_calls: Caller, plan: Plan
) -> None:
    counts = []
    for number in (1, 12):
        steps = {f"s{one}": {"agent": "loud", "message": f"{one}"} for one in range(number)}
        agent = await bridge.run(plan, steps)
        run = (await started(ada_calls, inputs={}, wait=False))["id"]
        await bridge.run(lambda run=run, agent=agent: begin(Task.objects.get(pk=run), agent.current_version))
        with statements() as asked:
            assert len((await run_of(ada_calls, run))["steps"]) == number
        counts.append(len(asked))
    assert counts[0] == counts[1]
