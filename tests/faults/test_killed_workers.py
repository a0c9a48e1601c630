"""kill -9 during all kinds of work: it continues or fails with a reason, undoubled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.faults.agents import STOP, lines_to
from tests.faults.calling import JSON, Caller, text_of, until
from tests.faults.conftest import PATIENCE, kill_the_worker, rows, wait_for_stop
from tests.remote.peers.starting import running
from tests.stack import Stack

pytestmark = pytest.mark.services("several processes, one of which is killed", only=True)


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
