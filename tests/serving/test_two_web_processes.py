"""What one web process has acknowledged, another one shows at once: docs/explanation/consistency.md."""

import httpx
import pytest

pytestmark = pytest.mark.services("two web processes have a database in common", only=True)


@pytest.fixture(scope="module")
def processes(server):
    """A client of the API at each of two web processes."""
    headers = {"Authorization": f"Bearer {server.demo_key}", "A2A-Version": "1.0"}
    with (
        server.another_web() as other,
        httpx.Client(base_url=server.url, headers=headers, timeout=60) as one,
        httpx.Client(base_url=other, headers=headers, timeout=60) as two,
    ):
        yield one, two


def test_other_process_reads_what_was_acknowledged(processes):
    for number in range(10):
        writer, reader = processes if number % 2 else reversed(processes)
        sent = writer.post("/api/v1/sessions", json={"agent": "echo", "message": {"text": f"number {number}"}}).json()
        session, task = sent["session"]["id"], sent["task"]["id"]
        assert reader.get(f"/api/v1/sessions/{session}").status_code == 200
        assert session in {one["id"] for one in reader.get("/api/v1/sessions").json()["items"]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 100}}
        listed = reader.post("/a2a/echo", json=call).json()["result"]["tasks"]
        assert task in {one["id"] for one in listed}


def test_repeated_message_elsewhere_runs_once(processes):
    message = {"messageId": "the same", "role": "ROLE_USER", "parts": [{"text": "once"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    first, second = (one.post("/a2a/echo", json=call).json()["result"]["task"]["id"] for one in processes)
    assert first == second
