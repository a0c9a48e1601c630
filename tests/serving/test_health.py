"""Health endpoints: alive, ready, and why not."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
from django.conf import settings

from tests import stack
from tests.stack import Stack


def asked(url: str) -> tuple[int, dict[str, str]]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)


def test_a_server_that_stands_is_alive_and_ready(server: Stack) -> None:
    assert asked(f"{server.url}/healthz") == (200, {"status": "ok"})
    status, parts = asked(f"{server.url}/readyz")
    assert status == 200
    assert parts["database"] == "ok"
    assert ("broker" in parts) == (not settings.EMBEDDED)


@pytest.mark.services("a broker that is not there", only=True)
def test_a_server_without_its_tables_or_its_broker_is_alive_and_says_what_is_missing() -> None:
    with stack.prepared(CELERY_BROKER_URL="amqp://guest:guest@127.0.0.1:1//") as bare:
        bare.launch("daphne")
        bare.wait_for("/healthz")
        status, parts = asked(f"{bare.url}/readyz")
    assert status == 503
    assert parts["status"] == "not ready"
    assert "migrate" in parts["database"]
    assert parts["broker"] == "cannot be reached"
