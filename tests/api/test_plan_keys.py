"""A key starts one plan, once, however many requests with it come at the very same moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

import bridge
from apps.agents.models import Agent
from apps.conversations.models import Context, Task
from apps.orchestration.opening import begin
from tests.api.calling import Answer, Caller

pytestmark = [pytest.mark.django_db(transaction=True)]

STEPS = {"one": {"agent": "loud", "message": "{{ inputs.text }}"}}
KEYS = [f"key-{number}" for number in range(6)]


async def at_once(caller: Caller, *sent: tuple[str, str, str]) -> list[Answer]:
    """The answers to starts, each of a plan with words under a key, that are sent together."""
    started = (
        caller.post("/plans/runs", {"plan": plan, "text": text}, idempotency_key=key) for plan, text, key in sent
    )
    return list(await asyncio.gather(*started))


async def test_one_start_sent_eight_times_at_once_is_one_run(ada_calls: Caller, plan: Callable[..., Agent]) -> None:
    await bridge.run(lambda: plan(STEPS))
    answers = await at_once(ada_calls, *[("plan", "bees", "once")] * 8)
    assert Counter(answer.status for answer in answers) == {201: 1, 200: 7}
    assert [answer.body["repeated"] for answer in answers].count(False) == 1
    assert len({answer.body["run"]["id"] for answer in answers}) == 1
    assert await bridge.run(lambda: (Task.objects.count(), Context.objects.count())) == (1, 1)


async def test_two_bodies_under_one_key_at_once_are_one_run_and_a_refusal(
    ada_calls: Caller, plan: Callable[..., Agent]
) -> None:
    await bridge.run(lambda: plan(STEPS))
    answers = await at_once(ada_calls, *[("plan", text, key) for key in KEYS for text in ("bees", "wasps")])
    assert Counter(answer.status for answer in answers) == {201: len(KEYS), 422: len(KEYS)}
    assert {field for answer in answers if answer.status == 422 for field in answer.fields} == {"Idempotency-Key"}
    assert await bridge.run(Task.objects.count) == len(KEYS)


async def test_two_plans_under_one_key_at_once_are_one_run_and_a_refusal(
    ada_calls: Caller, plan: Callable[..., Agent]
) -> None:
    for slug in ("plan", "other"):
        await bridge.run(lambda slug=slug: plan(STEPS, slug=slug))
    answers = await at_once(ada_calls, *[(slug, "bees", key) for key in KEYS for slug in ("plan", "other")])
    assert Counter(answer.status for answer in answers) == {201: len(KEYS), 422: len(KEYS)}
    refused = [answer.body for answer in answers if answer.status == 422]
    assert {body["detail"] for body in refused} == {
        "This Idempotency-Key was used for another plan. Use a new Idempotency-Key."
    }
    assert await bridge.run(Task.objects.count) == len(KEYS)


async def test_a_run_again_and_a_start_share_their_keys(ada_calls: Caller, plan: Callable[..., Agent]) -> None:
    agent, _ = [await bridge.run(lambda slug=slug: plan(STEPS, slug=slug)) for slug in ("plan", "other")]
    run = (await ada_calls.post("/plans/runs", {"plan": "plan", "text": "bees"}, idempotency_key="first")).body["run"]
    await bridge.run(lambda: begin(Task.objects.get(pk=run["id"]), agent.current_version))
    assert (await ada_calls.post(f"/plans/runs/{run['id']}/cancel")).status == 200
    other = {"plan": "other", "text": "bees"}
    assert (await ada_calls.post("/plans/runs", other, idempotency_key="of-other")).status == 201
    again = f"/plans/runs/{run['id']}/again"
    refused = await ada_calls.post(again, {"step": "one"}, idempotency_key="of-other")
    assert (refused.status, refused.fields) == (422, ["Idempotency-Key"])
    assert (await ada_calls.post(again, {"step": "one"}, idempotency_key="again")).status == 201
    started = await ada_calls.post("/plans/runs", other, idempotency_key="again")
    assert (started.status, started.fields) == (422, ["Idempotency-Key"])
