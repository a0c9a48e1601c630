"""A plan over A2A: the SDK's client starts it, hears how far it is, answers what it asks, and gets what it delivers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx
import pytest
from a2a.types import a2a_pb2 as a2a
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from apps.agents.cards import BINDINGS
from tests.a2a.talking import client, request, states, text_of, updates
from tests.stack import Stack

VERDICT = {"type": "object", "required": ["verdict"], "properties": {"verdict": {"type": "string"}}}
PLAN = {
    "name": "Reading",
    "description": "Has a person read a draft.",
    "inputs": {"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}},
    "steps": {
        "draft": {"agent": "echo", "message": "On {{ inputs.topic }}"},
        "reading": {
            "person": {"ask": "Is this good: {{ steps.draft.text }}?", "schema": VERDICT},
            "depends_on": ["draft"],
        },
        "final": {"agent": "echo", "message": "{{ steps.draft.text }}: {{ steps.reading.data.verdict }}"},
    },
}


@pytest.fixture
def plan(server: Stack) -> Iterator[str]:
    """Its slug."""
    slug = f"reading-{uuid.uuid4().hex[:8]}"
    headers = {"Authorization": f"Bearer {server.demo_key}"}
    with httpx.Client(base_url=f"{server.url}/api/v1", headers=headers, timeout=60) as api:
        api.post("/plans", json={"slug": slug, "definition": PLAN}).raise_for_status()
        yield slug


def data(value: object) -> a2a.Part:
    return a2a.Part(data=ParseDict(value, Value()))


def words(responses: list[a2a.StreamResponse]) -> list[str]:
    """What the states that came said."""
    return [text_of(one.status_update.status.message) for one in responses if one.HasField("status_update")]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_plan_is_started_followed_answered_and_delivers(server: Stack, plan: str, binding: str) -> None:
    async with client(server.url, plan, server.demo_key, binding=binding) as agent:
        heard = await updates(agent, request(data({"topic": "bees"})))
        assert states(heard)[-1] == a2a.TASK_STATE_INPUT_REQUIRED
        assert any("of 3 steps done" in said for said in words(heard))
        assert "Is this good: On bees?" in words(heard)[-1]
        task = heard[0].task.id
        heard = await updates(agent, request(data({"verdict": "very good"}), task_id=task))
        assert states(heard)[-1] == a2a.TASK_STATE_COMPLETED
        assert words(heard)[-1] == "3 steps done."
        done = await agent.get_task(a2a.GetTaskRequest(id=task))
        [artifact] = done.artifacts
        assert text_of(artifact) == "On bees: very good"
        assert MessageToDict(artifact.metadata)["step"] == "final"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_plan_asks_for_the_inputs_that_are_missing(server: Stack, plan: str, binding: str) -> None:
    async with client(server.url, plan, server.demo_key, binding=binding) as agent:
        heard = await updates(agent, request("Begin"))
        assert states(heard)[-1] == a2a.TASK_STATE_INPUT_REQUIRED
        assert "`topic` is needed." in words(heard)[-1]
        heard = await updates(agent, request(data({"topic": "wasps"}), task_id=heard[0].task.id))
        assert "Is this good: On wasps?" in words(heard)[-1]
