"""Runs of plans by the client API."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

from apps.agents.models import Agent
from apps.plans.running.runs import begin_run
from apps.record.models import Context, Task
from parley import db
from tests.clients.calling import JSON, Caller
from tests.engine.delegating import until
from tests.plans.plan_agents import DONE

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("of many requests under one key at once one counts, by the database's locks"),
]

Plan = Callable[..., Agent]
PLACE = {"type": "object", "properties": {"x": {"type": "string"}}}
TOPIC = {"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}, "place": PLACE}}
TWO: JSON = {
    "first": {"agent": "loud", "title": "The first", "message": "{{ inputs.topic }}"},
    "second": {"agent": "counting", "message": "{{ steps.first.text }}"},
}
ASKS: JSON = {"ask": {"agent": "curious", "title": "The question", "message": "the door"}}
BODY: JSON = {"plan": "plan", "inputs": {"topic": "bees"}}


@pytest.fixture
def two(plan, transactional_db):
    return plan(TWO, inputs=TOPIC)


async def started(caller: Caller, **fields: Any) -> JSON:
    """A run that has ended or asks."""
    told: JSON = (await caller.post("/plans/runs", {**BODY, "wait": True, **fields})).body["run"]
    return told


@pytest.mark.usefixtures("worker", "two")
async def test_plan_is_started_followed_and_drawn(ada_calls, echo):
    first = await ada_calls.post("/plans/runs", {**BODY, "wait": True}, idempotency_key="once")
    again = await ada_calls.post("/plans/runs", {**BODY, "wait": True}, idempotency_key="once")
    assert (first.status, again.status) == (201, 200)
    assert (first.body["repeated"], again.body["repeated"], DONE["loud:bees"]) == (False, True, 1)
    run = first.body["run"]
    assert run["finishedAt"] == run["updatedAt"], "whoever waited is told when it ended"
    assert again.body["run"] == run
    assert (run["state"], run["plan"], run["planVersion"]) == ("completed", "plan", 1)
    assert (run["stepsDone"], run["stepsTotal"], run["isPaused"]) == (2, 2, False)
    assert run["createdAt"] <= run["beganAt"] <= run["finishedAt"]
    assert run["inputs"] == {"topic": "bees", "text": "", "files": []}
    one, other = run["steps"]
    assert (one["key"], one["title"], one["state"], one["agent"]) == ("first", "The first", "done", "loud")
    assert (other["dependsOn"], len(other["artifacts"])) == (["first"], 1)
    assert (await ada_calls.get(f"/artifacts/{other['artifacts'][0]}")).body["name"] == "count"
    assert run["task"]["id"] == run["id"]
    [listed] = (await ada_calls.get("/plans/runs?plan=plan&state=completed")).body["items"]
    assert (listed["id"], listed["stepsDone"]) == (run["id"], 2)
    assert (await ada_calls.get("/plans/runs?state=failed")).body["items"] == []
    # Any task leads to its plan and back.
    place = (await ada_calls.get(f"/tasks/{one['taskId']}/plan")).body
    assert (place["runId"], place["plan"], place["step"]) == (run["id"], "plan", one)
    whole = (await ada_calls.get(f"/tasks/{run['id']}/plan")).body
    assert (whole["runId"], whole["step"]) == (run["id"], None)
    task = (await ada_calls.post("/sessions", {"agent": "echo", "message": {"text": "hi"}})).body["task"]["id"]
    for path in (f"/tasks/{task}/plan", f"/plans/runs/{task}"):
        assert (await ada_calls.get(path)).code == "not_found"
    for kind in ("graph", "time"):
        drawn = ElementTree.fromstring((await ada_calls.get(f"/plans/runs/{run['id']}/picture?kind={kind}")).content)
        assert "The first" in "".join(drawn.itertext())
        signs = {f"#{one.get('id')}" for one in drawn.iter("{http://www.w3.org/2000/svg}symbol")}
        used = {one.get("href") for one in drawn.iter("{http://www.w3.org/2000/svg}use")}
        assert set() < used <= signs, "it needs no other file"
    assert (await ada_calls.get(f"/plans/runs/{run['id']}/picture?kind=cake")).fields == ["kind"]


@pytest.mark.usefixtures("worker")
async def test_words_and_files_are_inputs_too(ada_calls, plan):
    one = {"agent": "loud", "message": "{{ inputs.text }}", "attach": ["inputs.files"]}
    await db.run(plan, {"one": one})
    file = {"raw": base64.b64encode(b"a,b\n").decode(), "filename": "t.csv", "mediaType": "text/csv"}
    run = await started(ada_calls, inputs={}, text="read it", files=[file])
    assert (run["state"], run["inputs"]["text"]) == ("completed", "read it")
    assert [one["filename"] for one in run["inputs"]["files"]] == ["t.csv"]
    made = (await ada_calls.get(f"/artifacts/{run['steps'][0]['artifacts'][0]}")).body["parts"]
    assert [part.get("filename") for part in made] == [None, "t.csv"]
    refused = await ada_calls.post("/plans/runs", {"plan": "plan", "files": [file, {"text": "words"}]})
    assert (refused.code, refused.fields) == ("invalid", ["files[1]"])


@pytest.mark.usefixtures("two")
async def test_wrong_plan_runs_are_refused_by_path(ada_calls, bob, settings):
    for inputs, path in (
        ({}, "inputs.topic"),
        ({"topic": 5}, "inputs.topic"),
        ({"topic": "x", "place": {"x": 1}}, "inputs.place.x"),
    ):
        answer = await ada_calls.post("/plans/runs", {"plan": "plan", "inputs": inputs})
        assert (answer.code, answer.fields) == ("invalid", [path])
    settings.STREAMS_PER_CALLER = 0
    assert (await ada_calls.post("/plans/runs", {**BODY, "wait": True})).status == 429, "who may not wait"
    home = await db.run(lambda: bob.personal_workspace)
    await db.run(Agent.objects.filter(slug="loud").update, access="workspace", workspace=home)
    answer = await ada_calls.post("/plans/runs", BODY)
    assert (answer.code, answer.fields) == ("invalid", ["steps.first.agent"])
    assert await db.run(Task.objects.count) == 0


@pytest.mark.usefixtures("two")
async def test_run_that_has_not_begun_cannot_be_paused(ada_calls):
    run = (await started(ada_calls, wait=False))["id"]
    assert (await ada_calls.post(f"/plans/runs/{run}/pause")).code == "conflict"
    assert (await ada_calls.get(f"/plans/runs/{run}/picture")).code == "not_found"
    assert (await ada_calls.post(f"/plans/runs/{run}/cancel")).body["state"] == "canceled"
    assert (await ada_calls.post(f"/plans/runs/{run}/cancel")).status == 200


@pytest.mark.usefixtures("worker")
async def test_what_a_step_asks_is_listed_and_answered(ada_calls, plan):
    await db.run(plan, ASKS)
    run = await started(ada_calls, inputs={})
    assert (run["state"], run["reasons"][0]["isYours"]) == ("input-required", True)
    assert run["reasons"][0]["taskId"] == run["steps"][0]["taskId"]
    [asked] = (await ada_calls.get("/plans/questions")).body["items"]
    assert (asked["runId"], asked["step"], asked["title"]) == (run["id"], "ask", "The question")
    assert asked["content"] == "Which colour for the door?"
    assert asked["question"]["schema"]["required"] == ["colour"]
    answer = {"data": {"colour": "green"}}
    assert (await ada_calls.post(f"/tasks/{asked['taskId']}/answer", answer)).status == 202
    await until(lambda: Task.objects.get(pk=run["id"]).state == "completed")
    assert (await ada_calls.get("/plans/questions")).body["items"] == []


# Concurrent requests with one key start one plan.


async def at_once(caller: Caller, *sent: tuple[str, str, str]) -> list[tuple[int, bool | list[str]]]:
    """The results of concurrent starts, each a plan with words and a key."""
    starts = (caller.post("/plans/runs", {"plan": plan, "text": text}, idempotency_key=key) for plan, text, key in sent)
    answers = await asyncio.gather(*starts)
    return [(one.status, one.fields if one.status == 422 else one.body["repeated"]) for one in answers]


async def test_concurrent_starts_with_one_key_count_once(ada_calls, bob_calls, plan):
    def both() -> None:
        for slug in ("plan", "other"):
            plan({"one": {"agent": "loud", "message": "{{ inputs.text }}"}}, slug=slug)

    await db.run(both)
    same = await at_once(ada_calls, *[("plan", "bees", "once")] * 8)
    assert sorted(same) == [(200, True)] * 7 + [(201, False)]
    assert await db.run(lambda: (Task.objects.count(), Context.objects.count())) == (1, 1)
    for wrong in ({"text": "wasps"}, {"text": "bees", "plan": "other"}):
        refused = await ada_calls.post("/plans/runs", {"plan": "plan", **wrong}, idempotency_key="once")
        assert (refused.status, refused.fields) == (422, ["Idempotency-Key"])
    assert (await bob_calls.post("/plans/runs", {"plan": "other"}, idempotency_key="once")).status == 201
    for name, starts in (
        ("texts", [("plan", "bees"), ("plan", "wasps")]),
        ("plans", [("plan", "bees"), ("other", "bees")]),
    ):
        keys = [f"{name}-{number}" for number in range(4)]
        told = await at_once(ada_calls, *[(slug, text, key) for key in keys for slug, text in starts])
        assert Counter(status for status, _ in told) == {201: len(keys), 422: len(keys)}
        assert [fields for status, fields in told if status == 422] == [["Idempotency-Key"]] * len(keys)
    assert await db.run(Task.objects.count) == 10


async def test_reruns_and_starts_share_their_keys(ada_calls, plan):
    one = {"one": {"agent": "loud", "message": "{{ inputs.text }}"}}
    agent, _ = [await db.run(lambda slug=slug: plan(one, slug=slug)) for slug in ("plan", "other")]
    run = (await ada_calls.post("/plans/runs", {"plan": "plan", "text": "bees"})).body["run"]
    await db.run(lambda: begin_run(Task.objects.get(pk=run["id"]), agent.current_version))
    assert (await ada_calls.post(f"/plans/runs/{run['id']}/cancel")).status == 200
    other, again = {"plan": "other", "text": "bees"}, f"/plans/runs/{run['id']}/again"
    for path, body, key, told in (
        ("/plans/runs", other, "of-other", 201),
        (again, {"step": "one"}, "of-other", 422),
        (again, {"step": "one"}, "again", 201),
        ("/plans/runs", other, "again", 422),
    ):
        answer = await ada_calls.post(path, body, idempotency_key=key)
        assert (answer.status, answer.fields) == (told, ["Idempotency-Key"] if told == 422 else [])
