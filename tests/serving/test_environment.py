"""Settings and `.env.example` have the same names."""

import os
import re
import runpy
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from parley import environment
from tests.stack import ROOT

READ = re.compile(r"""(?:env\.\w+|secret|service_url)\(\s*"([A-Z0-9_]+)\"""")
SETTINGS = ROOT / "platform/parley/settings.py"


def names_read() -> set[str]:
    others = ("environment", "telemetry/tracing", "outbound/trust")
    sources = [SETTINGS, *(ROOT / "platform/parley" / f"{name}.py" for name in others)]
    return {name for source in sources for name in READ.findall(source.read_text())}


def test_example_names_exactly_what_is_read():
    example = (ROOT / ".env.example").read_text()
    assert set(re.findall(r"^#?([A-Z0-9_]+)=", example, re.MULTILINE)) == names_read()
    assert all(paragraph.startswith("# ") for paragraph in example.strip().split("\n\n"))


@pytest.fixture
def settings_with(monkeypatch, tmp_path):
    for name in names_read() & os.environ.keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("DATA_DIR", str(tmp_path))

    def read(**environment: str) -> dict[str, Any]:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            return runpy.run_path(str(SETTINGS))

    return read


def test_env_file_is_read_as_documented(monkeypatch, tmp_path):
    lines = ["\ufeff# Ours", "", "export PORT=9000", "LLM_MODEL='a # b'", 'EMAIL_FROM="x@y"', "LLM_API_KEY=", "HOST=::"]
    (tmp_path / ".env").write_text("\n".join([*lines, "PYTHONPATH=agents:/srv/agents", "DEBUG=true"]))
    monkeypatch.setattr(environment.Environment, "ENVIRON", found := {"DEBUG": "false"})
    monkeypatch.setattr(sys, "path", ["here"])
    environment.read_file(tmp_path / ".env")
    folders = [f"{tmp_path}/agents", "/srv/agents"]
    assert found == {
        "DEBUG": "false", "PORT": "9000", "LLM_MODEL": "a # b", "EMAIL_FROM": "x@y", "LLM_API_KEY": "", "HOST": "::",
        "PYTHONPATH": ":".join(folders),
    }  # fmt: skip
    assert sys.path == ["here", *folders]


def test_database_and_secrets_are_private_files(settings_with, tmp_path):
    read = settings_with()
    assert settings_with()["MASTER_KEY"] == read["MASTER_KEY"], "it is made once"
    database = Path(read["DATABASES"]["default"]["NAME"])
    assert mode(database) == 0o600
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (x)")
        files = [*sorted(tmp_path.glob("parley.sqlite3*")), tmp_path / "secret-key", tmp_path / "master-key"]
        assert [path.name for path in files][:3] == ["parley.sqlite3", "parley.sqlite3-shm", "parley.sqlite3-wal"]
        assert {path.name: mode(path) for path in files} == {path.name: 0o600 for path in files}
        for path in files:
            path.chmod(0o644)
        assert settings_with()["SECRET_KEY"] == read["SECRET_KEY"]
        assert {path.name: mode(path) for path in files} == {path.name: 0o600 for path in files}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_cookies_and_https_follow_the_public_address(settings_with):
    at_home = settings_with()
    assert [at_home["SESSION_COOKIE_NAME"], at_home["CSRF_COOKIE_NAME"]] == ["sessionid", "csrftoken"]
    assert not any(at_home[name] for name in ("SECURE_SSL_REDIRECT", "SECURE_HSTS_SECONDS", "SESSION_COOKIE_SECURE"))
    public = settings_with(PUBLIC_BASE_URL="https://parley.example.org", FORWARDED_ALLOW_IPS="10.0.0.0/8")
    assert "parley.example.org" in public["ALLOWED_HOSTS"]
    assert public["SECURE_SSL_REDIRECT"]
    assert public["SECURE_HSTS_INCLUDE_SUBDOMAINS"]
    assert public["SECURE_HSTS_SECONDS"] >= 365 * 24 * 3600
    for cookie in ("SESSION", "CSRF"):
        assert public[f"{cookie}_COOKIE_NAME"].startswith("__Host-")
        assert public[f"{cookie}_COOKIE_SECURE"]
        assert public[f"{cookie}_COOKIE_HTTPONLY"]
    unnamed = settings_with(PUBLIC_BASE_URL="https://parley.example.org")
    assert not unnamed["SECURE_SSL_REDIRECT"], "a proxy that does not say how callers came would be sent in circles"
