"""kill -9 during plans: each step is done once."""

from __future__ import annotations

import random
import secrets
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.faults.calling import JSON, Caller, until
from tests.faults.conftest import PATIENCE, rows
from tests.stack import Stack

pytestmark = pytest.mark.services("several processes, some of which are killed", only=True)
STEPS_OF_A_TRIP = 4


def whole_plans(own: Stack, *tasks: JSON) -> list[str]:
    return own.python("-m", "tests.plans.whole_plans", *(task["id"] for task in tasks)).stdout.splitlines()


def steps_done(own: Stack) -> int:
    return int(rows(own, "SELECT count(*) FROM plans_step WHERE state = 'done'")[0][0])


@pytest.mark.parametrize(
    ("plans", "kills"), [(12, 3), pytest.param(100, 20, marks=pytest.mark.slow("twenty workers are started"))]
)
@pytest.mark.timeout(900)  # twenty workers start slowly on a busy machine
def test_plans_outlive_dying_workers(frail, plans, kills):
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with psycopg.connect(frail.environment["DATABASE_URL"]) as connection:
        connection.execute("UPDATE agents_agent SET attempts = %s WHERE slug LIKE 'trip-%%'", [kills + 1])
    trip, before = Caller(frail, "trip"), steps_done(frail)
    inputs = {"data": {"city": "Lisbon", "departure": "Oslo", "arrival": "2027-05-01", "nights": 3}}
    with frail.another_worker(), ThreadPoolExecutor(8) as senders:
        sending = [senders.submit(trip.send_through, inputs) for _ in range(plans)]
        for moment in sorted(chance.sample(range(plans * STEPS_OF_A_TRIP), kills)):
            until(lambda moment=moment: steps_done(frail) - before >= moment, 4 * PATIENCE)  # type: ignore[misc]
            kill_one(frail, chance)
        tasks = [sent.result() for sent in sending]
        for task in tasks:
            ended = trip.ended(task, within=4 * PATIENCE)
            assert ended["status"]["state"] == "TASK_STATE_COMPLETED", ended["status"]
        assert steps_done(frail) - before == plans * STEPS_OF_A_TRIP
    assert len({task["id"] for task in tasks}) == plans
    assert whole_plans(frail, *tasks) == [f"{plans} plans"]


def kill_one(own: Stack, chance: random.Random) -> None:
    """Kill one worker; another replaces it later."""
    until(lambda: any(map(own.takes_work, own.workers)), 4 * PATIENCE)
    victim = chance.choice([worker for worker in own.workers if own.takes_work(worker)])
    own.kill(victim)
    own.begin(victim)
