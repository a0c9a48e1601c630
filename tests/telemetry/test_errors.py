"""Errors are reported to Sentry with their stacks and our ids, and with nothing that anybody said."""

import gzip
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from parley.telemetry import errors
from tests.stack import ROOT, SERVICES
from tests.telemetry.collector import receiving

CANARY = "canary-5e1d-words"


def events_of(envelope: bytes) -> list[dict[str, Any]]:
    """An envelope is lines of JSON: a header, then for each item a header and the item."""
    _, *lines = envelope.splitlines()
    pairs = zip(lines[::2], lines[1::2], strict=False)
    return [json.loads(item) for header, item in pairs if json.loads(header).get("type") == "event"]


def test_errors_are_reported_without_anything_said(tmp_path):
    bodies: list[bytes] = []
    with receiving(lambda headers, body: bodies.append(body)) as url:
        dsn = f"{url.replace('//', '//public@')}/1"
        known = {"SENTRY_DSN": dsn, "SENTRY_ENVIRONMENT": "testing", "DATA_DIR": str(tmp_path)}
        kept = {name: value for name, value in os.environ.items() if name not in SERVICES}
        command = [sys.executable, "-m", "tests.telemetry.reporting"]
        done = subprocess.run(command, cwd=ROOT, env=kept | known, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    events = [event for body in bodies for event in events_of(gzip.decompress(body))]
    types = [event["exception"]["values"][-1]["type"] for event in events]
    assert sorted(types) == ["LookupError", "LookupError", "OperationalError", "ValueError"], done.stderr
    by_run = {event["tags"]["run"]: event for event in events if "run" in event.get("tags", {})}
    assert by_run["run-1"]["tags"] == {"run": "run-1", "task": "task-1", "agent": "echo"}
    assert by_run["run-1"]["exception"]["values"][-1]["stacktrace"]["frames"][-1]["function"] == "fail"
    assert {(event["environment"], event["release"][:7]) for event in events} == {("testing", "parley@")}
    [page] = [event for event, kind in zip(events, types, strict=True) if kind == "OperationalError"]
    assert "no such table" in page["exception"]["values"][-1]["value"]
    assert CANARY not in json.dumps(events)
    assert '"vars":' not in json.dumps(events)
    assert CANARY not in done.stdout + done.stderr


def test_wrong_dsn_is_refused_in_a_sentence(monkeypatch):
    with pytest.raises(ValueError, match="SENTRY_DSN is not a DSN"):
        errors.configure("nonsense", release="1", environment="test")
    monkeypatch.setitem(sys.modules, "sentry_sdk", None)
    with pytest.raises(errors.NoSentry, match="pip install sentry-sdk"):
        errors.configure("http://public@127.0.0.1/1", release="1", environment="test")
    errors.configure("", release="1", environment="test")
