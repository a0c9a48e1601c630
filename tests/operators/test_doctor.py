"""`./manage.py doctor`: all is well where it is, and each kind of fault has its red line and its advice."""

from __future__ import annotations

import base64
import datetime
import json
import os
import re
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from apps.accounts.secrets.encryption import Keyring
from apps.engine import accept
from apps.engine.turns.isolation import note_end
from apps.housekeeping import processes
from apps.housekeeping.models import ServerProcess
from apps.installation.models import ModelConnection
from apps.operators.doctor import CHECKS, Check, Finding, Patient, State, configuration, examine
from apps.record.execution import Run
from parley import outbound
from parley.environment import mailers
from tests.stack import ROOT, free_port
from tests.working import begin

PATIENT = Patient("http://127.0.0.1:8000")
OK, WARNING, PROBLEM = State
KEYS = {"SECRET_KEY": "0123456789abcdefghij" * 3, "MASTER_KEY": base64.urlsafe_b64encode(b"x" * 32).decode()}


def found(name: str, patient: Patient = PATIENT) -> Finding:
    """What this one check finds."""
    check = next(check for check in CHECKS if check.name == name)
    return check.find(patient)


# The whole


@pytest.mark.services("a process of its own", only=True)
def test_missing_services_are_named_and_fail(tmp_path):
    away = {
        "DATABASE_URL": f"postgres://parley:hunter2@127.0.0.1:{free_port()}/parley",
        "CELERY_BROKER_URL": f"amqp://guest:hunter2@127.0.0.1:{free_port()}//",
        "CHANNEL_LAYER_URL": f"redis://:hunter2@127.0.0.1:{free_port()}",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "doctor", "--json", "--url", f"http://127.0.0.1:{free_port()}"],
        cwd=ROOT, env={**os.environ, **KEYS, **away, "DATA_DIR": str(tmp_path)}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    checks = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    problems = {name for name, one in checks.items() if one["state"] == PROBLEM}
    assert problems == {"static files", "database", "broker", "channel layer", "web server"}
    for name, setting in zip(("database", "broker", "channel layer"), away, strict=True):
        assert setting in checks[name]["advice"]
    assert checks["workers"]["state"] == WARNING  # nobody knows
    assert checks["allowed hosts"]["state"] == OK
    assert "hunter2" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_problems_are_printed_with_advice(transactional_db, settings, capsys):
    settings.SECRET_KEY = "changeme"
    with pytest.raises(CommandError) as raised:
        call_command("doctor", url=f"http://127.0.0.1:{free_port()}")
    assert raised.value.returncode == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if "SECRET_KEY" in line)
    assert lines[at].startswith("problem")
    assert "secrets.token_urlsafe" in lines[at + 1]
    assert "docs/running/doctor.md#secret_key" in lines[at + 2]


@pytest.mark.parametrize(
    "entry", ["parley.example.org", "parley.example.org:443:somewhere", "parley.example.org:x:::1"]
)
def test_wrong_resolve_is_refused(entry):
    with pytest.raises(CommandError, match="HOST:PORT:ADDRESS") as raised:
        call_command("doctor", "--resolve", entry)
    assert raised.value.returncode == 2


def test_each_check_has_its_place_in_the_documentation():
    headings = re.findall(r"^### (.+)$", (ROOT / "docs/running/doctor.md").read_text(), re.MULTILINE)
    assert headings == [check.name for check in CHECKS]


def test_broken_checks_do_not_stop_others():
    end = threading.Event()

    def broken(_: Patient) -> Finding:
        raise ZeroDivisionError("three apples for nobody")

    def well(_: Patient) -> Finding:
        return Finding(OK, "Well.")

    checks = [
        Check("hangs", lambda _: Finding(OK, str(end.wait(60))), seconds=0.05),
        Check("breaks", broken),
        Check("needs it", well, needs=["breaks"]),
        Check("needs that", well, needs=["needs it"]),
        Check("works", well),
        Check("needs what works", well, needs=["works"]),
    ]
    states = {check.name: finding.state for check, finding in examine(checks, PATIENT)}
    end.set()
    assert states == {
        "hangs": PROBLEM, "breaks": PROBLEM, "needs it": WARNING, "needs that": WARNING, "works": OK,
        "needs what works": OK,
    }  # fmt: skip


# Settings and the machine


@pytest.mark.parametrize(
    ("name", "changed", "state"),
    [
        ("SECRET_KEY", {"SECRET_KEY": KEYS["SECRET_KEY"]}, OK),
        ("DEBUG", {"DEBUG": False}, OK),
        ("allowed hosts", {"ALLOWED_HOSTS": ["other.example.org"]}, PROBLEM),
        ("allowed hosts", {"ALLOWED_HOSTS": ["parley.example.org"]}, OK),
        ("proxies", {"FORWARDED_ALLOW_IPS": "", "IS_HTTPS": True}, WARNING),
        ("proxies", {"FORWARDED_ALLOW_IPS": "10.0.0.0/8", "IS_HTTPS": True}, OK),
        ("profile", {"EMBEDDED": False, "CELERY_BROKER_URL": "memory://"}, WARNING),
        ("e-mail", {"EMAIL_URL": "", "ADMINS": []}, OK),
        ("vectors", {"EMBEDDING_MODEL": "embedder"}, OK),
    ],
)
def test_unsafe_and_unfit_settings_are_found(settings, name, changed, state):
    for key, value in changed.items():
        setattr(settings, key, value)
    finding = found(name, Patient("https://parley.example.org"))
    assert finding.state == state
    assert bool(finding.advice) == (state != OK)


@pytest.mark.parametrize(
    ("url", "state"),
    [
        ("https://parley.example.org", OK),
        ("http://127.0.0.1:8000", OK),
        ("http://parley.example.org", WARNING),
        ("parley.example.org", PROBLEM),
        ("https://parley.example.org/parley", PROBLEM),
    ],
)
def test_public_address_is_an_encrypted_origin(url, state):
    assert found("public address", Patient(url)).state == state


@pytest.fixture
def folder():
    """One that others may enter, unlike `tmp_path`."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def test_unsafe_data_folder_is_found(settings, folder):
    settings.DATA_DIR, settings.EMBEDDED = folder, False
    (folder / "master-key").write_text("secret")
    (folder / "master-key").chmod(0o644)
    assert found("data folder").state == WARNING
    (folder / "master-key").chmod(0o600)
    assert found("data folder").state == OK
    settings.DATA_DIR = folder / "nowhere"
    assert found("data folder").state == PROBLEM


def test_a_disk_without_room_is_found(monkeypatch):
    for free, state in ((10**6, PROBLEM), (10**9, WARNING), (10**11, OK)):
        usage = type("Usage", (), {"free": free})
        monkeypatch.setattr(configuration.shutil, "disk_usage", lambda _, usage=usage: usage)
        assert found("disk").state == state


# What the database says


def test_a_missing_migration_is_found(transactional_db):
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'housekeeping' AND name = '0002_backups'")
    finding = found("migrations")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('housekeeping', '0002_backups', %s)",
            [timezone.now()],
        )
    assert finding.state == PROBLEM
    assert "manage.py migrate" in finding.advice


def test_a_clock_that_is_wrong_is_found(db, monkeypatch):
    for ahead, state in ((0.0, OK), (5.0, WARNING), (60.0, PROBLEM)):
        now = time.time() + ahead
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert found("database clock").state == state
        monkeypatch.undo()


def test_secret_of_a_lost_master_key_is_found(db, settings):
    ModelConnection.objects.create(name="One", slug="one", base_url="https://m.example.org", api_key="key", model="m")
    assert found("stored secrets").state == OK
    settings.MASTER_KEY = KEYS["MASTER_KEY"]
    finding = found("stored secrets")
    assert finding.state == PROBLEM
    assert ModelConnection._meta.db_table in finding.text
    assert "MASTER_KEY" in finding.advice
    assert Keyring.read(settings.MASTER_KEY)


def test_missing_and_doubled_processes_are_found(db, settings):
    assert {found(name).state for name in ("workers", "beat")} == {PROBLEM}
    for kind in ServerProcess.Kind:
        processes.note_heartbeat(kind)
    assert {found(name).state for name in ("workers", "beat")} == {OK}
    settings.EXPECTED_WORKERS = 2
    assert found("workers").state == WARNING
    ServerProcess.objects.filter(kind="beat").update(host="other.example.org")
    processes.note_heartbeat(ServerProcess.Kind.BEAT)
    assert found("beat").state == WARNING


def test_a_run_that_waits_too_long_is_found(ada, echo, said):
    assert found("queue").state == OK
    accept.accept(ada.principal, echo, said())
    for waiting, state in ((1, OK), (100, WARNING), (1000, PROBLEM)):
        Run.objects.update(queued_at=timezone.now() - datetime.timedelta(seconds=waiting))
        assert found("queue").state == state
    type(echo).objects.update(activity="paused")
    assert found("queue").state == OK  # it waits on purpose


def test_agents_that_kill_their_workers_are_found(ada, echo, said):
    assert found("agents").state == OK
    for state in (WARNING, WARNING, PROBLEM):
        held = begin(accept.accept(ada.principal, echo, said()).run, "worker")
        note_end(held.lease.run_id, "worker", -signal.SIGKILL)
        finding = found("agents")
        assert (finding.state, echo.slug in finding.text) == (state, True)


# What it connects to


class MailServer(socketserver.StreamRequestHandler):
    """Takes every message."""

    def handle(self) -> None:
        self.wfile.write(b"220 mail.example.org ESMTP\r\n")
        for line in self.rfile:
            self.server.said.append(line)  # type: ignore[attr-defined]
            in_data = line.upper().startswith(b"DATA")
            self.wfile.write(b"354 go on\r\n" if in_data else b"250 ok\r\n")
            while in_data and (text := self.rfile.readline()) != b".\r\n":
                self.server.said.append(text)  # type: ignore[attr-defined]
            if in_data:
                self.wfile.write(b"250 taken\r\n")


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[Any]:
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def test_mail_is_tried_and_sent_where_asked(settings):
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), MailServer)
    server.said = []  # type: ignore[attr-defined]
    settings.EMAIL_URL = f"smtp://127.0.0.1:{server.server_address[1]}"
    settings.MAILERS = mailers(settings.EMAIL_URL)
    with serving(server):
        assert found("e-mail").state == OK
        assert not any(line.startswith(b"DATA") for line in server.said)  # type: ignore[attr-defined]
        assert found("e-mail", Patient(PATIENT.url, "ada@example.org")).state == OK
    assert b"To: ada@example.org\r\n" in server.said  # type: ignore[attr-defined]
    away = found("e-mail")
    assert (away.state, "EMAIL_URL" in away.advice) == (PROBLEM, True)


def test_silent_language_model_is_found(db, settings):
    settings.LLM_MODEL = ""
    assert found("language model").state == OK
    settings.LLM_MODEL, settings.LLM_BASE_URL = "some-model", f"http://127.0.0.1:{free_port()}/v1"
    finding = found("language model")
    assert finding.state == PROBLEM
    assert "LLM_BASE_URL" in finding.advice


def test_a_guard_that_lets_everything_through_is_found():
    try:
        for allowed, state in (([], OK), (["127.0.0.0/8"], WARNING), (["169.254.169.254/32"], PROBLEM)):
            outbound.configure(allowed)
            assert found("outgoing calls").state == state
    finally:
        outbound.configure([])
