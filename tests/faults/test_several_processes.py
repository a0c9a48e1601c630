"""Several processes of one Parley: all show what one acknowledged, and kills and a cut line lose and double nothing.

One file, so that a parallel run starts this Parley once. `docs/explanation/consistency.md` says what they promise.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.clients.streaming import Client, logs_of
from tests.faults.agents import STOP, lines_to
from tests.faults.calling import JSON, Caller, text_of, until
from tests.faults.conftest import PATIENCE, kill_the_worker, rows, wait_for_stop
from tests.faults.goings import work_on_without
from tests.remote.peers.starting import running
from tests.stack import Stack

pytestmark = pytest.mark.services("several processes and a real broker, of which some are killed or cut off", only=True)
STEPS_OF_A_TRIP = 4


# Killed workers


@dataclass(frozen=True)
class Scene:
    """Working tasks whose worker was killed."""

    repeatable: JSON
    stream: Iterator[JSON]
    unrepeatable: JSON
    foreman: JSON
    remote: JSON


@pytest.fixture(scope="module")
def api(frail):
    headers = {"Authorization": f"Bearer {frail.demo_key}"}
    with httpx.Client(base_url=f"{frail.url}/api/v1", headers=headers, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def peer(frail, tmp_path_factory):
    """The SDK's server, registered as the agent `cast`."""
    with running("tests.remote.peers.sdk_server") as url:
        card = Path(tmp_path_factory.mktemp("peer"), "card.json")
        card.write_text(json.dumps(httpx.get(f"{url}.well-known/agent-card.json", trust_env=False).json()))
        frail.manage("register_agent", "cast", "--card", str(card))
        yield Caller(frail, "cast")


@pytest.fixture(scope="module")
def killed(frail, api, peer):
    foreman, patient, reckless = (Caller(frail, slug) for slug in ("foreman", "patient", "reckless"))
    with ExitStack() as exits:
        leading = foreman.send("3, 20 held")
        repeatable, unrepeatable = patient.send("30 held"), reckless.send("30 held")
        session = api.get(f"/tasks/{repeatable['id']}").json()["sessionId"]
        for number in ("2", "3"):
            keyed = {"Idempotency-Key": f"{session}-{number}"}
            assert api.post(f"/sessions/{session}/queue", json={"text": number}, headers=keyed).is_success
        stream = exits.enter_context(patient.streaming("SubscribeToTask", id=repeatable["id"]))
        assert next(stream)["task"]["id"] == repeatable["id"]
        until(lambda: children(frail, leading) == [("completed", 1), ("working", 1)], PATIENCE)
        for task in (repeatable, unrepeatable):
            wait_for_stop(frail, task, STOP)
        remote = peer.send("count 1000")
        peer.wait_until_streaming(remote, chunks=20)
        kill_the_worker(frail)
        yield Scene(repeatable, stream, unrepeatable, leading, remote)


def children(own: Stack, task: JSON) -> list[tuple[str, int]]:
    """Children in order of completion: state and number of starts."""
    query = """
        SELECT task.state, run.fence FROM record_task task JOIN record_run run ON run.task_id = task.id
        WHERE task.parent_id = %s ORDER BY task.state, run.fence
    """
    return rows(own, query, task["id"])


def test_repeatable_work_is_delivered_once(frail, killed):
    states = [event["statusUpdate"]["status"]["state"] for event in killed.stream if "statusUpdate" in event]
    assert states[-1] == "TASK_STATE_COMPLETED"
    done = Caller(frail, "patient").ended(killed.repeatable, within=PATIENCE)
    assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(30)]
    assert [one["role"] for one in done["history"]] == ["ROLE_USER", "ROLE_AGENT"]


def test_unrepeatable_work_fails_with_a_reason(frail, killed):
    failed = Caller(frail, "reckless").ended(killed.unrepeatable, within=PATIENCE)
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    assert "not retry" in text_of(failed["status"]["message"])
    assert not failed.get("artifacts")


def test_queued_messages_are_sent_once_in_order(killed, api):
    session = api.get(f"/tasks/{killed.repeatable['id']}").json()["sessionId"]

    def said() -> list[str]:
        messages = api.get(f"/sessions/{session}/messages").json()["items"]
        return [one["content"] for one in messages if one["role"] == "user"]

    until(lambda: len(said()) == 3, 2 * PATIENCE)
    assert said() == ["30 held", "2", "3"]
    assert api.get(f"/sessions/{session}/queue").json() == {"items": [], "held": ""}


def test_waiting_caller_calls_nobody_twice(frail, killed):
    ended = Caller(frail, "foreman").ended(killed.foreman, within=2 * PATIENCE)
    assert text_of(ended["history"][-1]) == "3 20", ended
    assert children(frail, killed.foreman) == [("completed", 1), ("completed", 2)]


def test_remote_agents_work_is_found_again(frail, killed, peer):
    done = peer.ended(killed.remote, within=PATIENCE + 30)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [text_of(artifact) for artifact in done["artifacts"]] == ["".join(f"{n} " for n in range(1, 1001))]
    [[fence]] = rows(frail, "SELECT fence FROM record_run WHERE task_id = %s", killed.remote["id"])
    assert fence > 1, "another worker took the run up"


def test_sigterm_gives_the_work_back_at_once(frail, patient):
    task = patient.send("30 held")
    wait_for_stop(frail, task, STOP)
    frail.terminate("worker", within=30)
    found = rows(frail, "SELECT state, lease_until FROM record_run WHERE task_id = %s", task["id"])
    assert found == [("queued", None)]
    frail.start("worker")
    wait_for_stop(frail, task, 2 * STOP)
    patient.call("CancelTask", id=task["id"])


@pytest.mark.parametrize(
    ("workers", "runs"), [(2, 40), pytest.param(4, 200, marks=pytest.mark.slow("many runs continue alone"))]
)
def test_poison_costs_its_neighbors_no_attempt(frail, patient, tmp_path, workers, runs):
    rows(frail, "UPDATE agents_agent SET alone_until = NULL WHERE slug = 'poison' RETURNING slug")
    poison, gated, beside = Caller(frail, "poison"), f"{STOP + 1} {tmp_path}", runs // 6
    with ExitStack() as exits, ThreadPoolExecutor(8) as senders:
        for _ in range(workers - 1):
            exits.enter_context(frail.another_worker())
        good = [*senders.map(patient.send, [gated] * beside)]
        until(lambda: counted(frail, good, "artifact_update") == beside * STOP, PATIENCE)
        killer = poison.send("Drink this.")
        until(lambda: not all(map(frail.is_running, frail.workers)), PATIENCE)
        Path(tmp_path, str(STOP)).touch()
        good += senders.map(patient.send, [gated] * (runs - beside))
        killed = poison.ended(killer, within=4 * PATIENCE)
        done = [patient.ended(task, within=4 * PATIENCE) for task in good]
        dead = [name for name in frail.workers if not frail.is_running(name)]
    if "worker" in dead:
        frail.start("worker")
    assert "killed its worker" in text_of(killed["status"]["message"])
    assert (len(dead), counted(frail, [killer], "agent_start")) == (1, 2), "a worker and a child died"
    assert {text_of(artifact) for task in done for artifact in task["artifacts"]} == {lines_to(STOP + 1)}
    attempts = "SELECT state, attempt, count(*) FROM record_run WHERE task_id = ANY(%s::uuid[]) GROUP BY state, attempt"
    assert rows(frail, attempts, [task["id"] for task in good]) == [("done", 1, runs)]


def counted(own: Stack, tasks: list[JSON], event: str) -> int:
    query = "SELECT count(*) FROM record_event WHERE task_id = ANY(%s::uuid[]) AND type = %s"
    return int(rows(own, query, [task["id"] for task in tasks], event)[0][0])


# Killed workers of plans


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


# A broker out of reach, and a killed web server


def test_broker_may_be_out_of_reach(frail, broker_line, tmp_path):
    work_on_without(frail, broker_line.cut, broker_line.mend, tmp_path)


async def test_client_hears_each_event_once_despite_kill(frail, countdown):
    clients = [Client(frail.url, frail.demo_key) for _ in range(3)]
    await asyncio.gather(*(client.begin() for client in clients))
    expected: list[tuple[int, str]] = []
    task = await asyncio.to_thread(countdown.send, "60")
    session = task["contextId"]

    def is_told(client: Client) -> bool:
        return bool(expected) and len(client.logs[session]) >= len(expected)

    following = [
        asyncio.create_task(client.follow(lambda c=client: is_told(c), cuts=5, seed=seed, most=2000))  # type: ignore[misc]
        for seed, client in enumerate(clients)
    ]
    async with asyncio.timeout(60):
        while min(len(client.logs[session]) for client in clients) < 15:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await asyncio.to_thread(frail.kill, "web")
    await asyncio.to_thread(frail.start)
    await asyncio.to_thread(countdown.ended, task, 120)
    expected += (await asyncio.to_thread(logs_of, frail, [session]))[session]
    await asyncio.to_thread(Caller(frail, "echo").send, "the end")
    async with asyncio.timeout(120):
        await asyncio.gather(*following)
    assert all(client.logs[session] == expected for client in clients)


# Two web servers


@pytest.fixture(scope="module")
def webs(frail):
    """A client of the API at each of two web processes."""
    headers = {"Authorization": f"Bearer {frail.demo_key}", "A2A-Version": "1.0"}
    with (
        frail.another_web() as other,
        httpx.Client(base_url=frail.url, headers=headers, timeout=60) as one,
        httpx.Client(base_url=other, headers=headers, timeout=60) as two,
    ):
        yield one, two


def test_other_process_reads_what_was_acknowledged(webs):
    for number in range(10):
        writer, reader = webs if number % 2 else reversed(webs)
        sent = writer.post("/api/v1/sessions", json={"agent": "echo", "message": {"text": f"number {number}"}}).json()
        session, task = sent["session"]["id"], sent["task"]["id"]
        assert reader.get(f"/api/v1/sessions/{session}").status_code == 200
        assert session in {one["id"] for one in reader.get("/api/v1/sessions").json()["items"]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 100}}
        listed = reader.post("/a2a/echo", json=call).json()["result"]["tasks"]
        assert task in {one["id"] for one in listed}


def test_repeated_message_elsewhere_runs_once(webs):
    message = {"messageId": "the same", "role": "ROLE_USER", "parts": [{"text": "once"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    first, second = (one.post("/a2a/echo", json=call).json()["result"]["task"]["id"] for one in webs)
    assert first == second
