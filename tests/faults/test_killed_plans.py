"""kill -9 during plans: each step is done once."""

from __future__ import annotations

import base64
import random
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.faults.calling import JSON, TERMINAL, Caller, message, text_of, until
from tests.faults.conftest import PATIENCE, kill_the_worker, rows
from tests.stack import ROOT, Stack

pytestmark = pytest.mark.services("several processes, some of which are killed", only=True)
DATA = ROOT / "examples/research/data"
STEPS_OF_A_TRIP = 4


def whole_plans(own: Stack, *tasks: JSON) -> list[str]:
    return own.python("-m", "tests.plans.whole_plans", *(task["id"] for task in tasks)).stdout.splitlines()


def steps_done(own: Stack) -> int:
    return int(rows(own, "SELECT count(*) FROM plans_step WHERE state = 'done'")[0][0])


@pytest.mark.parametrize(
    ("plans", "kills"), [(12, 3), pytest.param(100, 20, marks=pytest.mark.slow("twenty workers are started"))]
)
@pytest.mark.timeout(900)  # twenty workers start slowly on a busy machine
def test_many_plans_outlive_the_workers_that_die_meanwhile(frail: Stack, plans: int, kills: int) -> None:
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


@pytest.mark.slow("research asks five times, and workers die twice")
def test_the_research_goes_from_a_subject_to_its_report_though_workers_die(frail: Stack) -> None:
    research = Caller(frail, "research")
    task = research.send("lung fibrosis")
    for words, part in (
        ("Small molecules or biologics?", "small molecules"),
        ("Which cell line", "MRC-5"),
        ("Upload the screening data", file(DATA / "expression.csv")),
        ("lacks the columns", file(DATA / "screening.csv")),  # the agent asks for another file
    ):
        answer(research, task, words, part)
    kill_the_worker(frail)
    answer(research, task, "Upload the expression data", file(DATA / "expression.csv"))
    kill_the_worker(frail)
    answer(research, task, "Upload the validation data", file(DATA / "validation.csv"))
    ended = research.ended(task, within=3 * PATIENCE)
    assert ended["status"]["state"] == "TASK_STATE_COMPLETED", ended["status"]
    delivered = {artifact["name"]: artifact for artifact in ended["artifacts"]}
    assert {"report.md", "report.pdf", "screening-chart.png"} <= set(delivered)
    assert "PX-07" in text_of(delivered["report.md"])
    query = "SELECT key FROM plans_step WHERE run_id = %s AND state = 'done' ORDER BY ended_at"
    order = [key for [key] in rows(frail, query, task["id"])]
    assert len(order) == 14
    assert order.index("literature") < order.index("hypotheses") < order.index("screening") < order.index("report")
    assert whole_plans(frail, task) == ["1 plans"]


def answer(caller: Caller, task: JSON, words: str, part: str | JSON) -> None:
    def asks(now: JSON) -> bool:
        status = now["status"]
        assert status["state"] not in TERMINAL, status
        return status["state"] == "TASK_STATE_INPUT_REQUIRED" and words in text_of(status["message"])

    caller.until(asks, task, within=3 * PATIENCE)
    said = message(part, taskId=task["id"], contextId=task["contextId"])
    caller.insist("SendMessage", message=said, configuration={"returnImmediately": True})


def file(path: Path) -> JSON:
    return {"raw": base64.b64encode(path.read_bytes()).decode(), "filename": path.name, "mediaType": "text/csv"}
