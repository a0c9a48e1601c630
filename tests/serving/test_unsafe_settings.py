"""Parley does not start with settings that would be unsafe in production, and says so in a line each."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apps.installation import safety
from apps.operators.doctor import CHECKS, Patient, State
from tests.serving.test_environment import names_read
from tests.stack import ROOT

SAFE = {
    "DATABASE_URL": "postgres://parley@127.0.0.1:1/parley",
    "CELERY_BROKER_URL": "redis://127.0.0.1:1",
    "CHANNEL_LAYER_URL": "redis://127.0.0.1:1",
    "SECRET_KEY": "0123456789abcdefghij" * 3,
    "MASTER_KEY": "YSBrZXkgZm9yIHRlc3RzIGFsb25lLCAzMiBieXRlcyE",
    "PUBLIC_BASE_URL": "https://parley.example.org",
    "FORWARDED_ALLOW_IPS": "10.0.0.0/8",
}
PRODUCTION: dict[str, Any] = {
    "DEBUG": False,
    "EMBEDDED": False,
    "ALLOW_PLAIN_HTTP": False,
    "ALLOWED_HOSTS": ["parley.example.org"],
    **{name: SAFE[name] for name in ("SECRET_KEY", "MASTER_KEY", "PUBLIC_BASE_URL", "FORWARDED_ALLOW_IPS")},
}


def run(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in names_read()}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**inherited, **SAFE, "DATA_DIR": str(folder), **environment},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("check", "unsafe"),
    [
        ("SECRET_KEY", {"SECRET_KEY": "changeme"}),
        ("SECRET_KEY", {"SECRET_KEY": "x" * 60}),
        ("SECRET_KEY", {"SECRET_KEY": "django-insecure-0123456789abcdefghij0123456789abcdefghij"}),
        ("MASTER_KEY", {"MASTER_KEY": "short"}),
        ("DEBUG", {"DEBUG": True}),
        ("allowed hosts", {"ALLOWED_HOSTS": ["parley.example.org", "*"]}),
        ("public address", {"PUBLIC_BASE_URL": "http://parley.example.org"}),
        ("proxies", {"FORWARDED_ALLOW_IPS": "*"}),
    ],
)
def test_unsafe_settings_end_the_process_in_a_line(settings, check, unsafe):
    for name, value in PRODUCTION.items():
        setattr(settings, name, value)
    safety.refuse_unsafe_settings()
    for name, value in unsafe.items():
        setattr(settings, name, value)
    with pytest.raises(SystemExit) as refusal:
        safety.refuse_unsafe_settings()
    (line,) = str(refusal.value).splitlines()
    assert next(iter(unsafe)) in line
    found = next(one for one in CHECKS if one.name == check).find(Patient(settings.PUBLIC_BASE_URL))
    assert found.state == State.PROBLEM
    assert found.text in line


@pytest.mark.parametrize(
    "chosen",
    [
        {"PUBLIC_BASE_URL": "http://parley.lan", "ALLOW_PLAIN_HTTP": True},
        {"PUBLIC_BASE_URL": "http://192.168.1.5:8000", "EMBEDDED": True},
        {"PUBLIC_BASE_URL": "http://127.0.0.1:8000"},
        {"PUBLIC_BASE_URL": "http://localhost:8000", "DEBUG": True, "ALLOWED_HOSTS": ["*"]},
    ],
)
def test_laptops_and_named_choices_are_not_refused(settings, chosen):
    for name, value in {**PRODUCTION, **chosen}.items():
        setattr(settings, name, value)
    safety.refuse_unsafe_settings()


@pytest.mark.services("a process of its own", only=True)
@pytest.mark.parametrize(
    "program", [("-c", "import parley.asgi"), ("-m", "celery", "-A", "parley", "worker")], ids=["web", "worker"]
)
def test_no_process_starts_serving_every_host(tmp_path, program):
    done = run(*program, folder=tmp_path, ALLOWED_HOSTS="*")
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if "does not start" in line]
    assert len(said) == 1
    assert "ALLOWED_HOSTS" in said[0]
    assert "Traceback" not in done.stderr


@pytest.mark.services("a process of its own", only=True)
def test_djangos_deployment_check_finds_nothing(tmp_path):
    done = run("manage.py", "check", "--deploy", "--fail-level", "WARNING", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
