"""Health endpoints: alive, ready, and why not."""

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest
from django.test import AsyncClient

from parley.serving import health, static_files
from parley.serving.health import Check
from tests import stack

COLLECTED = {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"}


def asked(url: str) -> tuple[int, dict[str, str]]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)


@pytest.mark.services("a broker that is not there, and Daphne", only=True)
def test_server_names_missing_tables_and_broker():
    with stack.prepared(web="daphne", CELERY_BROKER_URL="amqp://guest:guest@127.0.0.1:1//") as bare:
        bare.launch("web")
        bare.wait_for("/healthz")
        answers = (asked(f"{bare.url}/readyz") for _ in range(30))
        status, parts = next(one for one in answers if one[1]["database"] != "does not answer")  # as a busy one says
    assert status == 503
    assert parts["status"] == "not ready"
    assert "migrate" in parts["database"]
    assert "migrate" in parts["migrations"]
    assert parts["broker"] == "cannot be reached"


@pytest.fixture
def checks(monkeypatch):
    """`/readyz` makes these checks, and waits for them a moment only."""

    def use(*found: Check) -> None:
        monkeypatch.setattr(health, "all_checks", list(found))

    monkeypatch.setattr(health, "WAIT_SECONDS", 0.2)
    return use


@pytest.fixture
def hanging():
    end = threading.Event()
    yield Check("broker", lambda: {"broker": health.OK} if end.wait(60) else {})
    end.set()


def all_well() -> dict[str, str]:
    return dict.fromkeys(("database", "migrations", "workers", "beat"), health.OK)


async def ready() -> tuple[int, dict[str, Any]]:
    answer = await AsyncClient().get("/readyz")
    return answer.status_code, answer.json()


async def test_hanging_part_is_named_by_one_thread(checks, hanging):
    checks(Check("database", all_well), hanging)
    for _ in range(3):
        status, parts = await ready()
        assert (status, parts["status"]) == (503, "not ready")
        assert (parts["broker"], parts["database"]) == (health.NO_ANSWER, health.OK)
    assert [thread.name for thread in threading.enumerate()].count("ready-broker") == 1


async def test_slow_part_keeps_its_recent_state(checks, monkeypatch):
    is_slow, end = threading.Event(), threading.Event()
    checks(Check("database", lambda: all_well() if not is_slow.is_set() or end.wait(60) else {}))
    health.all_checks[0].under_way().result(20)
    is_slow.set()
    try:
        assert (await ready())[0] == 200
        monkeypatch.setattr(health, "RECENT_SECONDS", 0.0)
        status, parts = await ready()
        assert (status, parts["database"]) == (503, health.NO_ANSWER)
    finally:
        end.set()


async def test_parts_warn_and_hide_their_inside(checks):
    checks(Check("database", lambda: {**all_well(), "workers": "No worker."}), Check("disk", lambda: {"disk": "Full."}))
    status, parts = await ready()
    assert (status, parts["status"]) == (200, "degraded")
    assert (parts["workers"], parts["disk"]) == ("No worker.", "Full.")

    def fail() -> dict[str, str]:
        raise OSError("postgres://parley:hunter2@10.1.2.3 refused")

    checks(Check("database", fail))
    status, parts = await ready()
    assert status == 503
    assert parts["database"] == health.UNREACHABLE
    assert set(parts) == {"status", "database", "migrations", "workers", "beat"}
    assert "hunter2" not in json.dumps(parts)


@pytest.fixture
def begin(settings):
    """Begins like a process, which looks once which static files there are."""
    known = (static_files._white_noise, static_files._static_middleware)

    def begin():
        settings.STORAGES = {**settings.STORAGES, "staticfiles": COLLECTED}
        for one in known:
            one.cache_clear()

    yield begin
    for one in known:
        one.cache_clear()


async def test_absent_or_late_static_files_are_not_ready(checks, settings, tmp_path, begin):
    settings.STATIC_ROOT = tmp_path
    checks(Check("database", all_well), Check("static_files", health.find_static_files))
    begin()
    assert (await ready())[0] == 503
    await AsyncClient().get("/static/style.css")
    (tmp_path / "style.0123456789ab.css").touch()
    (tmp_path / "staticfiles.json").write_text('{"version": "1.1", "paths": {"style.css": "style.0123456789ab.css"}}')
    assert (await ready())[0] == 503
    begin()
    assert (await ready())[0] == 200
