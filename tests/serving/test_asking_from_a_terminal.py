"""`./manage.py ask`, a conversation in a terminal, here without a server."""

import io
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.agents.registration import register_hosted
from apps.record.models import Task
from parley.terminal.screen import Screen

pytestmark = pytest.mark.django_db(transaction=True)
CSV = "city,people\nUlm,126000\nBonn,331000\nTrier,112000\n"
Ask = Callable[..., tuple[str, str]]


@pytest.fixture
def ask(ada, tmp_path, monkeypatch, capsys):
    """Asks in its own folder; returns the words, the events and the final error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, answers: str = "") -> tuple[str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(answers))
        error = ""
        try:
            call_command("ask", *words, *(["--answers"] if answers else []))
        except CommandError as ended:
            error = f"{ended} ({ended.returncode})"
        said, happened = capsys.readouterr()
        return said, happened + error

    return run


def test_files_go_in_and_come_out(ask, tmp_path):
    register_hosted("report", "examples.report.agent:Report")
    (tmp_path / "cities.csv").write_text(CSV)
    said, happened = ask("report", "make a report", "--file", "cities.csv", answers="Markdown\n")
    assert "PDF, HTML or Markdown" in said
    assert "Saved report.md" in happened
    assert "people" in (tmp_path / "report.md").read_text()
    context = re.search(r"--context (\S+)\)", happened)
    assert context
    ask("report", "make it shorter", "--context", context[1])
    assert (tmp_path / "report-2.md").exists()


def test_called_agents_are_served_and_may_ask(ask):
    for slug in ("shouting", "asking", "caller"):
        register_hosted(slug, f"tests.engine.calling_agents:{slug.capitalize()}")
    said, _ = ask("caller", "shouting: hello\nasking: the door", answers='{"colour": "red"}\n')
    assert "Which colour for the door?" in said
    assert "HELLO" in said
    assert "the door: " in said


def test_ctrl_c_cancels_the_task(ask, countdown, monkeypatch):
    def interrupted(screen: Screen, event: dict[str, Any]) -> None:
        if event["type"] == "artifact_update":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Screen, "show", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        assert ask("countdown", "500")[1] == "Canceled. (130)"
    finally:
        signal.signal(signal.SIGINT, before)
    assert Task.objects.get().state == "canceled"


def test_mistakes_and_open_questions_are_sentences(ask, echo, countdown):
    register_hosted("hello", "examples.agents.hello:Hello")
    assert "Ada" in ask("hello", "I am Ada")[0]
    assert "waits for an answer" in ask("countdown", "-1")[1]
    mistakes = {
        ("nobody", "hello"): "There is no agent 'nobody'",
        ("echo", "hello", "--as", "nobody@example.org"): "There is no user nobody@example.org",
        ("echo", "hello", "--file", "missing.csv"): "missing.csv: No such file or directory",
    }
    for words, sentence in mistakes.items():
        assert sentence in ask(*words)[1]
