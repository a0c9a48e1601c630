"""`./manage.py ask`: a conversation in a terminal, with and without a server beside it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations.models import Event
from apps.runtime.terminal import Terminal
from tests import programs, stack
from tests.stack import ROOT, Stack

CSV = "city,people\nUlm,126000\nBonn,331000\nTrier,112000\n"


@pytest.fixture(scope="module")
def installation() -> Iterator[Stack]:
    """Embedded: no server runs, so `ask` does the work by itself. Services: a worker does."""
    with stack.prepared() as prepared:
        if prepared.is_embedded:
            prepared.prepare()
        else:
            prepared.start()
        yield prepared


def ask(
    installation: Stack, folder: Path, *arguments: str, answers: str = "", status: int = 0
) -> subprocess.CompletedProcess[str]:
    words = [str(ROOT / "manage.py"), "ask", *arguments]
    done = programs.run(words, folder, installation.environment, given=answers, timeout=60)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def test_an_answer_is_printed_once_and_alone(installation: Stack, tmp_path: Path) -> None:
    assert ask(installation, tmp_path, "echo", "hello there").stdout == "hello there\n"


def test_an_agent_that_answers_with_a_message_is_heard(installation: Stack, tmp_path: Path) -> None:
    assert "Ada" in ask(installation, tmp_path, "hello", "I am Ada").stdout


def test_what_an_agent_says_bit_by_bit_comes_out_in_order(installation: Stack, tmp_path: Path) -> None:
    assert ask(installation, tmp_path, "countdown", "3").stdout == "3\n2\n1\nLift-off.\n"


def test_a_file_goes_in_a_question_is_answered_and_a_file_comes_out(installation: Stack, tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text(CSV)
    done = ask(installation, tmp_path, "report", "make a report", "--file", "cities.csv", answers="Markdown\n")
    assert "PDF, HTML or Markdown" in done.stdout
    assert "Saved report.md" in done.stderr
    assert "people" in (tmp_path / "report.md").read_text()


def test_a_conversation_goes_on_and_nothing_is_overwritten(installation: Stack, tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text(CSV)
    first = ask(installation, tmp_path, "report", "a report as Markdown", "--file", "cities.csv")
    context = re.search(r"--context (\S+)\)", first.stderr)
    assert context
    ask(installation, tmp_path, "report", "make it shorter", "--context", context[1])
    assert (tmp_path / "report.md").exists()
    assert (tmp_path / "report-2.md").exists()


def test_a_question_that_nobody_answers_waits_for_the_next_call(installation: Stack, tmp_path: Path) -> None:
    waiting = ask(installation, tmp_path, "countdown", "-1", status=1)
    context = re.search(r"--context (\S+)", waiting.stderr)
    assert context
    answered = ask(installation, tmp_path, "countdown", "2", "--context", context[1])
    assert answered.stdout == "2\n1\nLift-off.\n"


def test_an_agent_that_calls_others_is_served_too_and_so_is_what_they_ask(installation: Stack, tmp_path: Path) -> None:
    for slug in ("shouting", "asking", "caller"):
        installation.manage("register_agent", slug, "--handler", f"tests.runtime.calling_agents:{slug.capitalize()}")
    lines = "shouting: hello\nasking: the door"
    done = ask(installation, tmp_path, "caller", lines, answers='{"colour": "red"}\n')
    assert "Which colour for the door?" in done.stdout
    assert "HELLO" in done.stdout
    assert "the door: " in done.stdout


def test_what_happens_is_marked_whether_or_not_it_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(Path.cwd())
    said = {"parts": [{"text": "Reading"}]}
    terminal.show(Event(type="agent_status", payload={"state": "working", "message": said}))
    progress = {"text": "Reading", "done": 1, "total": 2}
    terminal.show(Event(type="agent_status", payload={"state": "working", "message": said, "progress": progress}))
    terminal.show(Event(type="agent_status", payload={"state": "failed", "message": said}))
    assert capsys.readouterr() == ("", "… Reading\n… Reading (1 of 2)\nReading\n")


def test_ctrl_c_cancels_the_task(installation: Stack, tmp_path: Path) -> None:
    asking = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "ask", "countdown", "500"],
        cwd=tmp_path, env=installation.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    assert asking.stdout
    assert asking.stdout.readline() == "500\n"
    asking.send_signal(signal.SIGINT)
    _, happened = asking.communicate(timeout=20)
    assert asking.returncode == 130
    assert "Canceled." in happened


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nobody", "hello"], "There is no agent 'nobody'"),
        (["echo", "hello", "--as", "nobody@example.org"], "There is no user nobody@example.org"),
        (["echo", "hello", "--file", "missing.csv"], "missing.csv: No such file or directory"),
    ],
)
def test_a_mistake_is_a_sentence(ada: User, echo: Agent, arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command("ask", *arguments)
