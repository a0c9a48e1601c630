import io
from collections.abc import Callable
from typing import NamedTuple

import pytest

from parley.terminal import client
from parley.terminal.program import run
from tests.terminal.fake import FakeParley


class Printed(NamedTuple):
    code: int
    said: str
    happened: str


Type = Callable[..., Printed]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A configuration folder of the test's own, and no waiting between attempts."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(client, "PAUSES", (0.0, 0.0, 0.0))
    for name in ("PARLEY_URL", "PARLEY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setenv("PARLEY_URL", "https://parley.example")
    monkeypatch.setenv("PARLEY_API_KEY", "a-key")
    return FakeParley()


@pytest.fixture
def parley(fake, monkeypatch, capsys):
    """The program at the fake installation; `typed` is its standard input."""

    def run_it(*words: str, typed: str = "") -> Printed:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code = run(list(words), fake)
        return Printed(code, *capsys.readouterr())

    return run_it
