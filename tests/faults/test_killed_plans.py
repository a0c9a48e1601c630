"""kill -9 while plans are at work: each step is done once, nothing is lost, and what people are asked waits."""

from __future__ import annotations

import base64
import random
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.faults.calling import BETWEEN, JSON, TERMINAL, Caller, message, text_of
from tests.faults.conftest import PATIENCE
from tests.faults.test_killed_workers import assert_it_is_whole, kill_the_worker
from tests.stack import ROOT, Stack

DATA = ROOT / "apps/showcase/research/data"
STEPS_OF_A_TRIP = 4
# The same work may be at hand of every worker that is killed.
OFTEN = """
from apps.agents.models import Agent
Agent.objects.filter(slug__startswith="trip-").update(attempts={attempts})
"""

STEPS = """
from apps.conversations.models import Task
from apps.orchestration.models import Step
for step in Step.objects.filter(run__in={tasks}).order_by("ended_at"):
    tries = Task.objects.filter(context__parent_task=step.run_id, plan_steps__key=step.key)
    completed = sum(one.state == "completed" for one in tries)
    print(step.run_id, step.key, step.state, step.task.state, completed, sep=",")
"""


def steps(standing: Stack, *tasks: JSON) -> list[dict[str, list[str]]]:
    """Of each plan the steps, in the order of their ends: their state, their task's, how many tasks are completed."""
    keys = [task["id"] for task in tasks]
    told = standing.manage("shell", "-v0", "-c", STEPS.format(tasks=keys)).stdout
    found: dict[str, dict[str, list[str]]] = {key: {} for key in keys}
    for run, step, *rest in (line.split(",") for line in told.splitlines() if line):
        found[run][step] = rest
    return list(found.values())


def asking(caller: Caller, task: JSON, words: str) -> JSON:
    """The task once it asks for this."""

    def asks(now: JSON) -> bool:
        status = now["status"]
        assert status["state"] not in TERMINAL, status
        return status["state"] == "TASK_STATE_INPUT_REQUIRED" and words in text_of(status["message"])

    return caller.until(asks, task, within=2 * PATIENCE)


def file(path: Path) -> JSON:
    return {"raw": base64.b64encode(path.read_bytes()).decode(), "filename": path.name, "mediaType": "text/csv"}


def answer(caller: Caller, task: JSON, part: str | JSON) -> None:
    said = message(part, taskId=task["id"], contextId=task["contextId"])
    caller.insist("SendMessage", message=said, configuration={"returnImmediately": True})


def test_the_research_goes_from_a_subject_to_its_report_though_workers_die(frail: Stack) -> None:
    research = Caller(frail, "research")
    task = research.send("lung fibrosis")
    for words, part in (
        ("Small molecules or biologics?", "small molecules"),
        ("Which cell line", "MRC-5"),
        ("Upload the screening data", file(DATA / "expression.csv")),
        ("has no columns", file(DATA / "screening.csv")),  # the wrong one is asked for again
    ):
        answer(research, asking(research, task, words), part)
    kill_the_worker(frail)
    answer(research, asking(research, task, "Upload the expression data"), file(DATA / "expression.csv"))
    kill_the_worker(frail)
    answer(research, asking(research, task, "Upload the validation data"), file(DATA / "validation.csv"))
    ended = research.ended(task, within=3 * PATIENCE)
    assert ended["status"]["state"] == "TASK_STATE_COMPLETED", ended["status"]
    delivered = {artifact["name"]: artifact for artifact in ended["artifacts"]}
    assert {"report.md", "report.pdf", "screening-chart.png"} <= set(delivered)
    assert "PX-07" in text_of(delivered["report.md"])
    [done] = steps(frail, task)
    assert len(done) == 14
    assert set(map(tuple, done.values())) == {("done", "completed", "1")}
    order = list(done)
    assert order.index("literature") < order.index("hypotheses") < order.index("screening") < order.index("report")
    assert_it_is_whole(frail, ended)


@pytest.mark.timeout(900)  # a busy machine takes long to start twenty workers
def test_many_plans_outlive_the_workers_that_die_meanwhile(frail: Stack) -> None:
    plans, kills = (12, 3) if frail.is_embedded else (100, 20)
    steps, seed = plans * STEPS_OF_A_TRIP, secrets.randbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    frail.manage("shell", "-v0", "-c", OFTEN.format(attempts=kills + 1))
    trip = Caller(frail, "trip")
    inputs = {"data": {"city": "Lisbon", "departure": "Oslo", "arrival": "2027-05-01", "nights": 3}}
    with frail.another_worker(), looking_at(frail) as steps_done, ThreadPoolExecutor(8) as senders:
        before = steps_done()
        sending = [senders.submit(trip.send_through, inputs) for _ in range(plans)]
        for moment in sorted(chance.sample(range(steps), kills)):
            soon(lambda moment=moment: steps_done() - before >= moment)  # type: ignore[misc]
            kill_one(frail, chance)
        tasks = [sent.result() for sent in sending]
        for task in tasks:
            ended = trip.ended(task, within=4 * PATIENCE)
            assert ended["status"]["state"] == "TASK_STATE_COMPLETED", ended["status"]
        assert steps_done() - before == steps
    runs = {task["id"] for task in tasks}
    assert len(runs) == plans
    assert frail.python("-m", "tests.orchestration.whole_plans", *runs).stdout.splitlines() == [f"{plans} plans"]


def kill_one(standing: Stack, chance: random.Random) -> None:
    """One of those who execute runs dies at once, whatever it is doing; another takes its place some time later."""
    if standing.is_embedded:
        kill_the_worker(standing)
        return
    soon(lambda: any(map(standing.takes_work, standing.workers)))
    victim = chance.choice([worker for worker in standing.workers if standing.takes_work(worker)])
    standing.kill(victim)
    standing.begin(victim)


@contextmanager
def looking_at(standing: Stack) -> Iterator[Callable[[], int]]:
    """How many steps are done by now, of all plans."""
    asked = "SELECT COUNT(*) FROM orchestration_step WHERE state = 'done'"
    with closing(database_of(standing)) as connection:
        yield lambda: int(connection.execute(asked).fetchone()[0])


def database_of(standing: Stack) -> Any:
    if standing.is_embedded:
        (file,) = standing.data_dir.glob("*.sqlite3")
        return sqlite3.connect(file, timeout=30, isolation_level=None)
    return psycopg.connect(standing.environment["DATABASE_URL"], autocommit=True)


def soon(is_so: Callable[[], bool]) -> None:
    """Wait until that is so."""
    deadline = time.monotonic() + 4 * PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(BETWEEN)
