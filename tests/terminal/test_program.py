"""The program: login, exit codes, sentences, and a start without Django."""

import json
import os
import stat
import subprocess
import sys
import sysconfig
import threading
import tomllib
import zipfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import MappingProxyType

import httpx2
import pytest

from parley.terminal.client import Failure, checked_url, find_login, login_file
from parley.terminal.program import run
from tests.outbound import certificates
from tests.stack import ROOT

NO_AGENTS = {"items": [], "nextCursor": None}


ASK_NOBODY = """
import sys
sys.argv = ["parley", "agents"]
from {module} import main
try:
    main()
except SystemExit as ended:
    assert ended.code == 4, ended.code
print(sys.modules["parley.terminal"].__file__)
known = {{name.partition(".")[0] for name in sys.modules}} | set(sys.modules)
print({{"django", "apps", "parley.settings", "parley.db", "agentkit", "celery"}} & known)
"""
"""A program that calls no server; it prints where the client is, and what it imported of the platform."""


def test_login_keeps_a_working_key_private(parley, fake, monkeypatch):
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


def test_stored_key_goes_only_to_its_address(parley, fake, monkeypatch):
    fake.on("GET", "/agents", NO_AGENTS)
    assert parley("login").code == 0
    monkeypatch.delenv("PARLEY_API_KEY")
    assert find_login().key == "a-key"
    monkeypatch.setenv("PARLEY_URL", "https://other.example")
    with pytest.raises(Failure):
        find_login()
    monkeypatch.setenv("PARLEY_API_KEY", "another")
    assert (find_login().url, find_login().key) == ("https://other.example", "another")


def test_wrong_addresses_are_refused():
    for address in ("ftp://x", "https://", "https://me:secret@x", "https://x?y=1", "http://[", "http://a b"):
        with pytest.raises(Failure):
            checked_url(address)


@pytest.mark.parametrize(
    ("answer", "code", "word"),
    [
        (httpx2.ConnectError("refused"), 4, "No connection"),
        (401, 4, "parley login"),
        (403, 1, "refused"),
        (httpx2.Response(404, text="<html>"), 4, "update"),
        (httpx2.Response(200, text="<html>"), 4, "update"),
        (httpx2.Response(500, text=""), 4, "update"),
        (httpx2.Response(301, headers={"location": "https://new.example/"}), 4, "https://new.example/"),
        (httpx2.Response(429, json={"detail": "Too many."}, headers={"retry-after": "7"}), 1, "7 seconds"),
    ],
)
def test_errors_are_one_sentence(parley, fake, answer, code, word):
    fake.on("GET", "/agents", answer)
    done = parley("agents")
    assert (done.code, done.said) == (code, "")
    assert word in done.happened
    assert done.happened.count("\n") == 1


def test_long_lists_are_read_page_by_page(parley, fake):
    def page(first: int, cursor: str | None) -> dict[str, object]:
        health = {"status": "ok"}
        rows = [{"slug": f"a{n}", "name": "", "description": "", "health": health} for n in range(first, first + 2)]
        return {"items": rows, "nextCursor": cursor}

    fake.on("GET", "/agents", page(0, "next"), page(2, None))
    assert len(parley("agents").said.splitlines()) == 4
    assert fake.requests[-1].url.params["cursor"] == "next"


def test_the_client_loads_neither_django_nor_the_platform():
    environment = {"PYTHONPATH": str(ROOT / "platform"), "XDG_CONFIG_HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    source = ASK_NOBODY.format(module="parley.program")
    done = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["set()"]


def next_words(folder: Path, line: str, known: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """What the shell offers after this line."""
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    asked |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(folder / "told"), "PYTHONPATH": str(ROOT / "platform")}
    asked |= {"XDG_CACHE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), **known}
    source = "import sys; sys.argv = ['parley']\nfrom parley.program import main\nmain()"
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
def agents():
    with HTTPServer(("127.0.0.1", 0), Agents) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_shells_complete_agents_and_ask_once(tmp_path, agents):
    known = {"PARLEY_URL": f"http://127.0.0.1:{agents.server_port}", "PARLEY_API_KEY": "a-key"}
    assert [next_words(tmp_path, "parley ask e", known) for _ in range(2)] == [["echo", "editor"]] * 2
    assert next_words(tmp_path, "parley tasks --agent ec", known) == ["echo"]
    assert agents.asked == [("/api/v1/agents", "Bearer a-key")]


@pytest.fixture
def certify(tmp_path, agents, monkeypatch):
    """Let the agents' server have a certificate by the company, whose authority is in company.pem."""
    company = certificates.certificate()
    (tmp_path / "company.pem").write_bytes(certificates.pem(company[0]))

    def certify(name: str, days: int = 1) -> None:
        tls = certificates.serving(tmp_path, certificates.certificate(name, by=company, since=3, days=days))
        agents.socket = tls.wrap_socket(agents.socket, server_side=True)
        monkeypatch.setenv("PARLEY_URL", f"https://127.0.0.1:{agents.server_port}")
        monkeypatch.setenv("PARLEY_API_KEY", "a-key")

    return certify


def test_company_authority_is_trusted_if_named(tmp_path, certify, monkeypatch, capsys):
    certify("127.0.0.1")
    for named, code in (("", 4), ("company.pem", 0), ("missing.pem", 4)):
        monkeypatch.setenv("SSL_CERT_FILE", named and str(tmp_path / named))
        assert run(["agents", "--json"]) == code
        assert ("SSL_CERT_FILE" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize(("name", "days"), [("127.0.0.2", 1), ("127.0.0.1", -1)])
def test_another_authority_helps_no_wrong_certificate(name, days, tmp_path, certify, monkeypatch, capsys):
    certify(name, days)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "company.pem"))
    assert run(["agents", "--json"]) == 4
    said = capsys.readouterr().err
    assert "certificate" in said
    assert "SSL_CERT_FILE" not in said


@pytest.mark.parametrize("known", [{}, {"PARLEY_URL": "http://127.0.0.1:9", "PARLEY_API_KEY": "a-key"}])
def test_completion_is_silent_without_agents(tmp_path, known):
    assert next_words(tmp_path, "parley ask e", known) == []


def test_client_wheel_needs_no_django(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT / "platform/parley/terminal", check=True, capture_output=True)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    (wheel,) = tmp_path.glob(f"parley_cli-{version}-*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    path = os.pathsep.join([str(installed), sysconfig.get_path("purelib")])
    environment = {"PYTHONPATH": path, "XDG_CONFIG_HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    source = ASK_NOBODY.format(module="parley.terminal.program")
    command = [sys.executable, "-S", "-c", source]  # without .pth files: the checkout's editable installation stays out
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines() == [f"{installed}/parley/terminal/__init__.py", "set()"]


def test_unknown_things_and_logins_are_named(parley, fake, monkeypatch):
    for path, words in (
        ("/agents/nobody", ["chat", "nobody", "hi"]),
        ("/tasks/1%2F..%2F2", ["tasks", "show", "1/../2"]),
    ):
        fake.on("GET", path, 404)
        done = parley(*words)
        assert (done.code, "List yours with: parley " in done.happened) == (1, True)
    assert "parley" in parley("completion", "bash").said
    login_file().parent.mkdir(parents=True)
    login_file().write_text("{")
    monkeypatch.delenv("PARLEY_API_KEY")
    assert str(login_file()) in parley("agents").happened
