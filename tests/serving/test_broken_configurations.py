"""A broken configuration ends what starts, with a line that says why and a line that says what to do."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.core import checks

from apps.installation import safety
from apps.operators.doctor import CHECKS, Finding, Patient, State
from parley import environment
from parley.db import reach
from parley.misconfigured import Misconfigured, refused
from tests.serving.broken_configurations import BROKEN, REFUSED, SAFE, Broken, Ends
from tests.serving.test_environment import names_read
from tests.stack import ROOT, free_port, web_command

by_name = {broken.name: broken for broken in (*BROKEN, REFUSED)}
needs_server = pytest.mark.services("PostgreSQL refuses", only=True)


def rows(*ends: Ends) -> list[Any]:
    chosen = [broken for broken in by_name.values() if broken.ends in ends]
    return [pytest.param(one, id=one.name, marks=needs_server if one is REFUSED else ()) for one in chosen]


def the_two_lines(text: str) -> tuple[str, str]:
    cause, advice, *more = text.splitlines()
    assert more == []
    return cause, advice


# In this process


@pytest.fixture
def read(monkeypatch, tmp_path):
    """Reads the settings of a configuration, as every process does first."""

    def settings_of(broken: Broken) -> Any:
        chosen = {**SAFE, "DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "parley.settings", **broken.settings}
        kept = {name: value for name, value in os.environ.items() if name not in names_read()}
        environ = {**kept, **{name: value for name, value in chosen.items() if value is not None}}
        monkeypatch.setattr(environment.Environment, "ENVIRON", environ)
        monkeypatch.setattr(environment, "HOME", tmp_path)
        monkeypatch.setenv("DJANGO_SETTINGS_MODULE", environ["DJANGO_SETTINGS_MODULE"])
        monkeypatch.delitem(sys.modules, "parley.settings")
        if broken.file:
            broken.file(tmp_path / ".env")
        with refused():
            environment.find_settings()
            return import_module(os.environ["DJANGO_SETTINGS_MODULE"])

    folder = tmp_path / "data"
    return settings_of


@pytest.mark.parametrize("broken", rows(Ends.READING))
def test_unreadable_configuration_ends_in_two_lines(read, broken, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        read(broken)
    assert end.value.code == os.EX_CONFIG
    cause, advice = the_two_lines(capsys.readouterr().err)
    assert broken.word in cause
    assert advice
    assert [*tmp_path.glob("data/*")] == [], "no key, no database"


@pytest.fixture
def use(read, settings, monkeypatch):
    """Reads settings that are right, and lets this process have those that decide whether it starts."""

    def chosen(broken: Broken) -> None:
        found = read(broken)
        for name in ("SECRET_KEY", "DEBUG", "EMBEDDED", "ALLOWED_HOSTS", "PUBLIC_BASE_URL", "FORWARDED_ALLOW_IPS"):
            setattr(settings, name, getattr(found, name))
        settings.ALLOW_PLAIN_HTTP = found.ALLOW_PLAIN_HTTP
        monkeypatch.setitem(settings.DATABASES, "default", found.DATABASES["default"])

    return chosen


@pytest.mark.parametrize("broken", rows(Ends.SERVERS))
def test_servers_refuse_what_the_doctor_finds(use, broken, settings, capsys):
    use(broken)
    with pytest.raises(SystemExit) as end:
        safety.refuse_to_start()
    assert end.value.code == os.EX_CONFIG
    cause, advice = the_two_lines(capsys.readouterr().err)
    assert broken.word in cause
    found = finding(broken, settings.PUBLIC_BASE_URL)
    assert found.state == State.PROBLEM
    assert cause.endswith(found.text)
    assert advice == found.advice


def finding(broken: Broken, url: str) -> Finding:
    return next(one for one in CHECKS if one.name == broken.check).find(Patient(url))


def test_deployment_check_finds_what_is_unsafe(use):
    use(by_name["every-host"])
    found = checks.run_checks(tags=[checks.Tags.security], include_deployment_checks=True)
    assert any("ALLOWED_HOSTS" in one.msg for one in found if one.is_serious(checks.ERROR))


def test_web_servers_outlive_an_absent_database(use, capsys):
    use(by_name["database-silent"])
    safety.refuse_to_start()
    cause, _ = the_two_lines(capsys.readouterr().err)
    assert "does not answer" in cause


def test_workers_wait_for_the_database(monkeypatch, capsys):
    answers = [Misconfigured("It is away.", "Start it.", code=os.EX_UNAVAILABLE)] * 3

    def check() -> None:
        if answers:
            raise answers.pop()

    monkeypatch.setattr(reach, "check", check)
    monkeypatch.setattr(safety, "WAIT_SECONDS", 0)
    safety.refuse_to_start(waits=True)
    assert answers == []
    assert the_two_lines(capsys.readouterr().err)[1] == "Start it."


@pytest.mark.parametrize(
    "chosen",
    [
        {"PUBLIC_BASE_URL": "http://parley.lan", "ALLOW_PLAIN_HTTP": "true"},
        {"PUBLIC_BASE_URL": "http://192.168.1.5:8000", "DATABASE_URL": None, "CELERY_BROKER_URL": None,
         "CHANNEL_LAYER_URL": None},
        {"PUBLIC_BASE_URL": "http://127.0.0.1:8000"},
        {"PUBLIC_BASE_URL": "http://localhost:8000", "DEBUG": "true", "ALLOWED_HOSTS": "*"},
    ],
)  # fmt: skip
def test_laptops_and_named_choices_are_not_refused(use, chosen):
    use(Broken("none", "", chosen))
    assert safety.unsafe_settings() == []


# In processes of their own

PROCESSES = {
    "web": web_command("uvicorn", free_port()),
    "daphne": web_command("daphne", free_port()),
    "worker": ["-m", "celery", "-A", "parley", "worker"],
    "beat": ["-m", "celery", "-A", "parley", "beat"],
    "prepare": ["manage.py", "prepare", "--no-static"],
    "doctor": ["manage.py", "doctor", "--url", f"http://127.0.0.1:{free_port()}"],
}
SERVERS = ("web", "worker", "beat")
HOME = (
    "import os, pathlib\nfrom parley import environment\nenvironment.HOME = pathlib.Path(os.environ['PARLEY_HOME'])\n"
)
"""Of `.env`: Python runs this first, so that no test writes into the checkout."""


def begin(process: str, broken: Broken, folder: Path) -> subprocess.Popen[str]:
    if broken.file:
        broken.file(folder / ".env")
    (folder / "sitecustomize.py").write_text(HOME)
    inherited = {name: value for name, value in os.environ.items() if name not in names_read()}
    path = os.pathsep.join([str(folder), str(ROOT), str(ROOT / "platform")])
    own = {"PARLEY_HOME": str(folder), "PYTHONPATH": path, "DATA_DIR": str(folder / "data")}
    chosen = {**inherited, **SAFE, "DJANGO_SETTINGS_MODULE": None, **own, **broken.settings}
    return subprocess.Popen(
        [sys.executable, *PROCESSES[process]], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={name: value for name, value in chosen.items() if value is not None},
    )  # fmt: skip


def check(process: str, broken: Broken, folder: Path) -> None:
    """What the process says first, and how it ends."""
    with begin(process, broken, folder) as started:
        if broken.ends is Ends.NOTHING and process in SERVERS:
            cause, advice = started.stderr.readline(), started.stderr.readline()
            is_running = started.poll() is None
            started.kill()
            assert is_running
            assert broken.word in cause
            assert advice
            return
        out, err = started.communicate(timeout=120)
    if process == "doctor" and broken.check:
        assert started.returncode == 1
        lines = out.splitlines()
        at = next(number for number, line in enumerate(lines) if line.startswith("problem") and broken.check in line)
        assert broken.word in lines[at]
        assert lines[at + 1].strip().startswith("→")
        return
    assert started.returncode == (os.EX_UNAVAILABLE if broken.ends is Ends.NOTHING else os.EX_CONFIG), err
    assert out == ""
    cause, advice = the_two_lines(err)
    assert broken.word in cause
    assert advice


@pytest.mark.services("a process of its own", only=True)
@pytest.mark.parametrize(
    ("process", "name"),
    [
        ("web", "line-with-blanks"),
        ("web", "every-host"),
        ("daphne", "folder-not-writable"),
        ("worker", "broker-without-database"),
        ("worker", "database-refuses"),
        ("beat", "settings-module-missing"),
        ("prepare", "file-unreadable"),
        ("prepare", "database-silent"),
        ("doctor", "master-key-malformed"),
    ],
)
def test_each_process_says_why_and_what_to_do(process, name, tmp_path):
    check(process, by_name[name], tmp_path)


@pytest.mark.slow("one or two of each process are enough")
@pytest.mark.services("processes of their own", only=True)
@pytest.mark.parametrize("process", ["web", "worker", "beat", "prepare", "doctor"])
@pytest.mark.parametrize("broken", rows(*Ends))
def test_every_process_says_it_of_every_configuration(process, broken, tmp_path):
    check(process, broken, tmp_path)


@pytest.mark.services("a process of its own", only=True)
def test_djangos_deployment_check_finds_nothing(tmp_path):
    own = {**os.environ, **SAFE, "DATA_DIR": str(tmp_path)}
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.mark.services("a process of its own", only=True)
def test_commands_say_that_tables_are_missing(tmp_path):
    own = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path}/empty.sqlite3", "DATA_DIR": str(tmp_path)}
    command = [sys.executable, "manage.py", "create_user", "ada@example.org"]
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == os.EX_CONFIG
    cause, advice = the_two_lines(done.stderr)
    assert "migrations" in cause
    assert "prepare" in advice
