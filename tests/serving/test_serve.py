"""`./manage.py serve`: one command from nothing to a platform that answers, and a good end."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator

import httpx
import pytest

from tests import stack
from tests.faults.calling import Caller
from tests.stack import Stack


@pytest.fixture(scope="module")
def served() -> Iterator[Stack]:
    """Something that `serve` serves, on this profile's database and broker; started as people start it."""
    with stack.prepared(forked=False) as prepared:
        prepared.serve_alone()
        yield prepared


def test_it_says_where_it_is_and_how_to_sign_in(served: Stack) -> None:
    printed = served.log("serve")
    for what in (f"{served.url}/", served.demo_email, served.demo_password, served.admin_password, served.demo_key):
        assert what in printed


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl: apt-get install curl")
def test_the_printed_curl_line_works(served: Stack) -> None:
    line = re.search(r"^curl .*$", served.log("serve"), re.MULTILINE)
    assert line
    answer = subprocess.run(shlex.split(line[0]), capture_output=True, check=True, timeout=30)
    assert json.loads(answer.stdout)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_secrets_are_for_their_owner_alone(served: Stack) -> None:
    assert stat.S_IMODE((served.data_dir / "first-login.txt").stat().st_mode) == 0o600


def test_a_taken_port_is_a_sentence(served: Stack) -> None:
    refused = served.manage("serve", check=False)
    assert refused.returncode == 1
    assert f"Nothing can be served at 127.0.0.1:{served.port}" in refused.stderr
    assert "PORT" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_within_seconds_with_streams_open_and_it_starts_again(
    served: Stack, number: signal.Signals
) -> None:
    served.serve_alone()
    countdown = Caller(served, "countdown")
    task = countdown.send("2000")
    with countdown.streaming("SubscribeToTask", id=task["id"]) as events:
        assert any("artifactUpdate" in event for event in events)
        began = time.monotonic()
        served.processes["serve"].send_signal(number)
        with contextlib.suppress(httpx.RemoteProtocolError):
            for _ in events:
                pass
    assert served.processes["serve"].wait(20) == 0
    assert time.monotonic() - began < 15
    assert "Traceback" not in served.log("serve")
    served.serve_alone()
    again = countdown.call("GetTask", id=task["id"])
    assert again["status"]["state"] == "TASK_STATE_FAILED"


@pytest.mark.services("needs several processes or a real broker", only=True)
def test_a_server_a_worker_and_a_beat_that_are_started_as_people_start_them_work() -> None:
    with stack.running(forked=False) as running:
        echo = Caller(running, "echo")
        assert echo.ended(echo.send("hello"), within=60)["status"]["state"] == "TASK_STATE_COMPLETED"


def test_an_address_of_another_machine_is_refused() -> None:
    with stack.prepared(HOST="192.0.2.1") as elsewhere:
        refused = elsewhere.manage("serve", check=False)
    assert refused.returncode == 1
    assert "Nothing can be served at 192.0.2.1" in refused.stderr


def test_without_the_showcase_nobody_exists_and_it_says_what_to_do() -> None:
    with stack.prepared() as bare:
        bare.serve_alone("--no-showcase", "--no-worker")
        assert "create_user" in bare.log("serve")
        assert not (bare.data_dir / "first-login.txt").exists()
        with socket.create_connection(("127.0.0.1", bare.port)):
            pass
        assert "There is no user" in bare.manage("ask", "echo", "hello", check=False).stderr
