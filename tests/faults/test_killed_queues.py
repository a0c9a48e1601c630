"""kill -9 while messages wait in a session: they are sent when its work is done, in order and once."""

from __future__ import annotations

import time

import httpx

from tests.faults.calling import JSON, Caller
from tests.faults.conftest import PATIENCE
from tests.faults.test_killed_workers import assert_it_is_whole, kill_the_worker
from tests.stack import Stack


def said_in(calls: httpx.Client, session: str) -> list[str]:
    messages: list[JSON] = calls.get(f"/sessions/{session}/messages").json()["items"]
    return [one["content"] for one in messages if one["role"] == "user"]


def test_what_waits_is_sent_once_though_its_worker_died(frail: Stack, patient: Caller) -> None:
    headers = {"Authorization": f"Bearer {frail.demo_key}"}
    calls = httpx.Client(base_url=f"{frail.url}/api/v1", headers=headers, timeout=60)
    task = patient.send("60")
    session = calls.get(f"/tasks/{task['id']}").json()["sessionId"]
    for number in ("2", "3"):
        keyed = {"Idempotency-Key": f"{task['id']}-{number}"}
        assert calls.post(f"/sessions/{session}/queue", json={"text": number}, headers=keyed).status_code == 201
    patient.wait_until_streaming(task, chunks=10)
    kill_the_worker(frail)
    patient.ended(task, within=PATIENCE + 60 * 0.1)
    deadline = time.monotonic() + 2 * PATIENCE
    while time.monotonic() < deadline and len(said_in(calls, session)) < 3:
        time.sleep(0.1)
    assert said_in(calls, session) == ["60", "2", "3"]
    assert calls.get(f"/sessions/{session}/queue").json() == {"items": [], "held": ""}
    assert_it_is_whole(frail, task)
