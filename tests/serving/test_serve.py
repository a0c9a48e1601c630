"""`./manage.py serve` starts a working platform from nothing, and ends cleanly."""

import contextlib
import io
import json
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command

from apps.accounts.models import User
from apps.agents.models import Agent
from examples import showcase
from parley.management.commands import prepare
from parley.serving import server, static_files
from tests import patterns, stack
from tests.faults.calling import Caller


@pytest.mark.django_db
def test_without_showcase_nobody_exists(monkeypatch, settings, capsys):
    served = []

    def serve(application: Any, host: str, port: int, *, worker: bool, ready: Callable[[], None]) -> None:
        served.append((host, port, worker))
        ready()

    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.setattr(static_files, "collect_if_changed", lambda: None)
    settings.HOST, settings.PORT = "127.0.0.1", 0
    call_command("serve", "--no-showcase", "--no-worker")
    assert served == [("127.0.0.1", 0, False)]
    assert "create_user" in capsys.readouterr().out
    assert not User.objects.exists()
    assert sorted(Agent.objects.values_list("slug", flat=True)) == ["assistant", "planner", "router"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("output", [Terminal, io.StringIO])
def test_only_terminal_shows_first_logins(output, monkeypatch, settings, tmp_path):
    logins = showcase.FirstLogin({showcase.ADMIN: "correct-horse"}, {showcase.DEMO: "a-key"})
    monkeypatch.setattr(showcase, "load_showcase", lambda: showcase.Loaded(logins, ()))
    monkeypatch.setattr(server, "serve", lambda *_, ready, **__: ready())
    monkeypatch.setattr(prepare.Command, "handle", lambda *_, **__: None)
    settings.HOST, settings.PORT, settings.DATA_DIR = "127.0.0.1", 0, tmp_path
    logins.write()
    call_command("serve", stdout=(printed := output()))
    shown = printed.getvalue()
    assert [secret in shown for secret in ("correct-horse", "a-key")] == [output is Terminal] * 2
    assert str(tmp_path / "first-login.txt") in shown or output is Terminal
    line = next(one for one in shown.splitlines() if one.startswith("curl "))
    said = subprocess.run(["sh", "-c", f"curl() {{ echo $*; }}; {line}"], capture_output=True, check=True, text=True)
    assert "Authorization: Bearer a-key -H" in said.stdout


def test_taken_address_is_a_sentence(settings):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for host, port in (taken.getsockname(), ("192.0.2.1", 8000)):
            settings.HOST, settings.PORT = host, port
            with pytest.raises(CommandError, match=rf"Cannot listen at {host}:{port} .*PORT={port + 1} make run"):
                call_command("serve")


@pytest.mark.services("starts and kills processes, which are embedded here", only=True)
def test_it_starts_ends_and_survives_a_kill():
    with stack.prepared(services={}, RUN_LEASE_SECONDS="2") as served:
        migrated = stack.migrated({})  # `deploy/test_wheel.py` begins without tables
        shutil.copyfile(migrated / patterns.DATABASE, served.data_dir / patterns.DATABASE)
        served.serve_alone()
        printed = served.log("serve")
        assert f"{served.url}/" in printed
        assert "first-login.txt" in printed
        assert stat.S_IMODE((served.data_dir / "first-login.txt").stat().st_mode) == 0o600
        line = re.search(r"^curl .*$", printed, re.MULTILINE)
        assert line
        answer = subprocess.run(["sh", "-c", line[0]], capture_output=True, check=True, timeout=60)
        assert json.loads(answer.stdout)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"

        countdown = Caller(served, "countdown")
        for how_it_ends in (served.terminate, served.kill):
            task = countdown.send("2000")
            with countdown.streaming("SubscribeToTask", id=task["id"]) as events:
                assert any("artifactUpdate" in event for event in events)
                how_it_ends()
                with contextlib.suppress(httpx.TransportError):
                    for _ in events:
                        pass
            assert served.processes["serve"].poll() == (0 if how_it_ends == served.terminate else -9)
            assert "Traceback" not in served.log("serve")
            served.serve_alone()
            assert countdown.ended(task, within=120)["status"]["state"] == "TASK_STATE_FAILED"
        assert countdown.ended(countdown.send("1"), within=60)["status"]["state"] == "TASK_STATE_COMPLETED"
