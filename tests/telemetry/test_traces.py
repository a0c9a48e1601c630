"""One trace leads from the caller through processes and remote agents to a collector."""

from __future__ import annotations

import secrets

import httpx
import pytest

from tests import stack
from tests.telemetry.calling import body, headers
from tests.telemetry.collector import collecting

CANARY = "canary-5e1d-words"


@pytest.mark.services("the trace passes through several processes", only=True)
def test_a_trace_leads_through_all_processes_to_a_remote_agents_model_and_back() -> None:
    trace_id, caller = secrets.token_hex(16), secrets.token_hex(8)
    with collecting() as collector:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-token=abc",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
            "OTEL_BSP_SCHEDULE_DELAY": "600000",  # so that processes send what they have when they end
            "OUTBOUND_ALLOW": "127.0.0.1",
        }
        with stack.running(**environment) as traced:
            traced.python("-m", "tests.telemetry.agents", traced.url)
            told = headers(traced.demo_key, f"00-{trace_id}-{caller}-01")
            answer = httpx.post(f"{traced.url}/a2a/front", json=body(CANARY), headers=told, timeout=60).json()
            assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            traced.terminate()
        edge = "POST /a2a/<slug>"
        expected = [edge, "queue run", "run front", "queue run", "run near", "invoke_agent near"]
        expected += [edge, "queue run", "run solver", "invoke_agent worker"]
        for name in ("chat scripted:actor", "execute_tool double"):
            assert collector.line(trace_id, name, caller) == [*expected, name]
        spans = [span for span in collector.spans if span.trace_id == trace_id]
        assert CANARY not in str(collector.spans)
        assert {span.service["service.name"] for span in spans} == {"parley"}
        assert {span.service["deployment.environment.name"] for span in spans} == {"test"}
        assert {told["x-token"] for told in collector.headers} == {"abc"}
