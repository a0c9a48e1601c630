"""The program: login, exit codes, sentences, and a start without Django."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from terminal.client import Failure, checked_url, find_login, login_file
from tests.stack import ROOT
from tests.terminal.conftest import Type
from tests.terminal.fake import FakeParley

NO_AGENTS = {"items": [], "nextCursor": None}


ASK_NOBODY = """
import sys
sys.argv = ["parley", "agents"]
from {module} import main
try:
    main()
except SystemExit as ended:
    assert ended.code == 4, ended.code
print(sys.modules["terminal"].__file__)
known = {{name.partition(".")[0] for name in sys.modules}}
print({{"django", "apps", "config", "db", "agentkit", "celery"}} & known)
"""
"""A program that calls no server; it prints where the client is, and what it imported of the platform."""


def test_login_keeps_a_key_that_works_for_its_owner_alone(
    parley: Type, fake: FakeParley, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_API_KEY")
    fake.on("GET", "/agents", 401, NO_AGENTS)
    assert parley("login", "https://parley.example/", typed="wrong\n").code == 4
    assert not login_file().exists()
    login_file().parent.mkdir(parents=True)
    login_file().touch(0o644)
    assert parley("login", "https://parley.example/", typed="right\n").code == 0
    assert stat.S_IMODE(login_file().stat().st_mode) == 0o600
    monkeypatch.delenv("PARLEY_URL")
    assert find_login().key == "right"
    assert parley("agents").code == 0
    assert fake.requests[-1].headers["authorization"] == "Bearer right"
    assert parley("logout").code == 0
    assert parley("agents").code == 4


def test_a_stored_key_goes_only_to_its_own_address(
    parley: Type, fake: FakeParley, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.on("GET", "/agents", NO_AGENTS)
    assert parley("login").code == 0
    monkeypatch.delenv("PARLEY_API_KEY")
    assert find_login().key == "a-key"
    monkeypatch.setenv("PARLEY_URL", "https://other.example")
    with pytest.raises(Failure):
        find_login()
    monkeypatch.setenv("PARLEY_API_KEY", "another")
    assert (find_login().url, find_login().key) == ("https://other.example", "another")


@pytest.mark.parametrize(
    "address",
    [
        "ftp://x",
        "https://",
        "https://me:secret@x",
        "https://x?y=1",
        "http://[",
        "http://a b",
        "http://x:99999",
        "http://[::::]",
        "http://xn--",
    ],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(Failure):
        checked_url(address)


@pytest.mark.parametrize(
    ("answer", "code", "word"),
    [
        (httpx.ConnectError("refused"), 4, "No connection"),
        (401, 4, "parley login"),
        (403, 1, "refused"),
        (httpx.Response(404, text="<html>"), 4, "update"),
        (httpx.Response(200, text="<html>"), 4, "update"),
        (httpx.Response(500, text=""), 4, "update"),
        (httpx.Response(301, headers={"location": "https://new.example/"}), 4, "https://new.example/"),
        (httpx.Response(429, json={"detail": "Too many."}, headers={"retry-after": "7"}), 1, "7 seconds"),
    ],
)
def test_an_error_is_one_sentence_that_says_what_to_do(
    parley: Type, fake: FakeParley, answer: object, code: int, word: str
) -> None:
    fake.on("GET", "/agents", answer)
    done = parley("agents")
    assert (done.code, done.said) == (code, "")
    assert word in done.happened
    assert done.happened.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["chat", "nobody", "hi"], ["tasks", "show", "1/../2"], ["tasks", "cancel", "x"], ["plans", "run", "x"]]
)
def test_what_is_unknown_is_named_with_the_command_that_lists(parley: Type, fake: FakeParley, words: list[str]) -> None:
    for path in ("/agents/nobody", "/tasks/1%2F..%2F2", "/tasks/1/../2", "/tasks/x", "/plans/x"):
        fake.on("GET", path, 404)
    done = parley(*words)
    assert done.code == 1
    assert "List yours with: parley " in done.happened


def test_long_lists_are_read_page_by_page_up_to_the_limit(parley: Type, fake: FakeParley) -> None:
    def page(first: int, cursor: str | None) -> dict[str, object]:
        health = {"status": "ok"}
        rows = [{"slug": f"a{n}", "name": "", "description": "", "health": health} for n in range(first, first + 2)]
        return {"items": rows, "nextCursor": cursor}

    fake.on("GET", "/agents", page(0, "next"), page(2, None))
    assert len(parley("agents").said.splitlines()) == 4
    assert fake.requests[-1].url.params["cursor"] == "next"


def test_the_client_loads_neither_django_nor_the_platform() -> None:
    environment = {"PYTHONPATH": str(ROOT / "platform"), "XDG_CONFIG_HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    source = ASK_NOBODY.format(module="console.program")
    done = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["set()"]


@pytest.mark.parametrize(
    ("words", "code", "first"),
    [
        (["--help"], 0, "login"),
        (["help", "chat"], 0, "usage: parley chat"),
        (["chta"], 2, "Did you mean chat?"),
        (["create_usr"], 2, "Did you mean create_user?"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_an_installation_names_the_clients_commands_first(words: list[str], code: int, first: str) -> None:
    source = f"import sys; sys.argv = {['parley', *words]!r}\nfrom console.program import main\nmain()"
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)]), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", source], env=path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    text = done.stdout + done.stderr
    assert first in text
    assert text.find(first) < (text + "[accounts]").find("[accounts]")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion(parley: Type, shell: str) -> None:
    done = parley("completion", shell)
    assert done.code == 0
    assert "parley" in done.said


def test_a_shell_is_told_what_may_come_next(tmp_path: Path) -> None:
    assert next_words(tmp_path, "parley ch") == ["chat"]


def next_words(folder: Path, line: str, known: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """What the shell offers after this line."""
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    asked |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(folder / "told"), "PYTHONPATH": str(ROOT / "platform")}
    asked |= {"XDG_CACHE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), **known}
    source = "import sys; sys.argv = ['parley']\nfrom console.program import main\nmain()"
    done = subprocess.run([sys.executable, "-c", source], env=asked, check=False, capture_output=True)
    assert done.stderr == b""
    return [one.strip() for one in (folder / "told").read_text().split("\n") if one.strip()]


class Agents(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append((self.path.partition("?")[0], self.headers["Authorization"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"items": [{"slug": "echo"}, {"slug": "editor"}, {"slug": "e; rm"}]}).encode())


@pytest.fixture
def agents() -> Iterator[Any]:
    with HTTPServer(("127.0.0.1", 0), Agents) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_shells_complete_agents_and_ask_once(tmp_path: Path, agents: Any) -> None:
    known = {"PARLEY_URL": f"http://127.0.0.1:{agents.server_port}", "PARLEY_API_KEY": "a-key"}
    assert [next_words(tmp_path, "parley ask e", known) for _ in range(2)] == [["echo", "editor"]] * 2
    assert next_words(tmp_path, "parley tasks --agent ec", known) == ["echo"]
    assert agents.asked == [("/api/v1/agents", "Bearer a-key")]


@pytest.mark.parametrize("known", [{}, {"PARLEY_URL": "http://127.0.0.1:9", "PARLEY_API_KEY": "a-key"}])
def test_completion_is_silent_without_agents(tmp_path: Path, known: dict[str, str]) -> None:
    assert next_words(tmp_path, "parley ask e", known) == []


def test_client_wheel_needs_no_django(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT / "platform" / "terminal", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("parley_cli-*.whl")
    environment = {"PYTHONPATH": str(wheel), "XDG_CONFIG_HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    source = ASK_NOBODY.format(module="terminal.program")
    done = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines() == [f"{wheel}/terminal/__init__.py", "set()"]


@pytest.mark.parametrize("words", [["--help"], ["chat", "--help"], ["plans", "run", "--help"], ["tasks", "--help"]])
def test_help_is_there(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from terminal.program import run

    with pytest.raises(SystemExit) as ended:
        run(words)
    assert ended.value.code == 0
    assert "usage: parley" in capsys.readouterr().out


def test_a_file_that_is_no_login_is_named(home: Path, parley: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    login_file().parent.mkdir(parents=True)
    login_file().write_text("{")
    assert str(login_file()) in parley("agents").happened
