"""`./manage.py ask`, a conversation in a terminal, here without a server."""

from __future__ import annotations

import io
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from django.core.management import CommandError, call_command
from pydantic import BaseModel

from agentkit import Completed, InputRequired, SkillHandler, TaskContext
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.record.models import Message, Task
from terminal.screen import Screen

pytestmark = pytest.mark.django_db(transaction=True)
CSV = "city,people\nUlm,126000\nBonn,331000\nTrier,112000\n"
Ask = Callable[..., tuple[str, str]]


@pytest.fixture
def ask(
    ada: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, str]]:
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


def test_what_an_agent_says_is_printed_once_alone_and_in_its_order(ask: Ask, echo: Agent, countdown: Agent) -> None:
    assert ask("echo", "hello there")[0] == "hello there\n"
    assert ask("countdown", "3")[0] == "3\n2\n1\nLift-off.\n"


def test_an_agent_that_answers_with_a_message_is_heard(ask: Ask) -> None:
    register_hosted("hello", "examples.agents.hello:Hello")
    assert "Ada" in ask("hello", "I am Ada")[0]


def test_a_file_goes_in_a_question_is_answered_and_files_come_out_without_overwriting(ask: Ask, tmp_path: Path) -> None:
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


def test_a_question_that_nobody_answers_waits_for_the_next_call(ask: Ask, countdown: Agent) -> None:
    context = re.search(r"waits for an answer.*--context (\S+) \(1\)", ask("countdown", "-1")[1])
    assert context
    assert ask("countdown", "2", "--context", context[1])[0] == "2\n1\nLift-off.\n"


def test_an_agent_that_calls_others_is_served_too_and_so_is_what_they_ask(ask: Ask) -> None:
    for slug in ("shouting", "asking", "caller"):
        register_hosted(slug, f"tests.engine.calling_agents:{slug.capitalize()}")
    said, _ = ask("caller", "shouting: hello\nasking: the door", answers='{"colour": "red"}\n')
    assert "Which colour for the door?" in said
    assert "HELLO" in said
    assert "the door: " in said


def test_ctrl_c_cancels_the_task(ask: Ask, countdown: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_mistake_is_a_sentence(ask: Ask, echo: Agent) -> None:
    mistakes = {
        ("nobody", "hello"): "There is no agent 'nobody'",
        ("echo", "hello", "--as", "nobody@example.org"): "There is no user nobody@example.org",
        ("echo", "hello", "--file", "missing.csv"): "missing.csv: No such file or directory",
    }
    for words, sentence in mistakes.items():
        assert sentence in ask(*words)[1]


def test_each_question_is_printed_with_its_choices_also_one_with_the_same_text(ask: Ask) -> None:
    register_hosted("asker", "tests.serving.test_asking_from_a_terminal:Asker")
    said, happened = ask("asker", "begin", answers='{"format": "json", "pages": 1}\n{"format": "json", "pages": 2}\n')
    assert said.count("Which?") == 2
    assert "format: markdown, json" in happened
    assert 'Answer with JSON: {"format": "…", "pages": "…"}' in happened


class Layout(BaseModel):
    format: Literal["markdown", "json"]
    pages: int


class Asker(SkillHandler):
    async def on_request(self, task: TaskContext) -> InputRequired:
        return InputRequired("Which?", Layout)

    async def on_input_received(self, task: TaskContext, slot: Layout) -> InputRequired | Completed:
        return InputRequired("Which?", Layout) if slot.pages == 1 else Completed("Thanks.")


def test_a_pipe_and_words_are_one_message(ask: Ask, echo: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("what it is about"))
    call_command("ask", "echo", "Say")
    assert Message.objects.filter(role="user").get().parts == [{"text": "Say\n\nwhat it is about"}]
