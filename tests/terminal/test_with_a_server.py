"""The client at a real Parley."""

import io
import json
from pathlib import Path

import pytest

from parley.terminal.program import run
from tests.terminal.conftest import Printed

CSV = "city,people\nUlm,126000\nBonn,331000\nTrier,112000\n"


@pytest.fixture
def parley(server, monkeypatch, capsys):
    monkeypatch.setenv("PARLEY_URL", server.url)
    monkeypatch.setenv("PARLEY_API_KEY", server.demo_key)

    def run_it(*words: str, typed: str = "") -> Printed:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        return Printed(run(list(words)), *capsys.readouterr())

    return run_it


def test_files_and_questions_go_both_ways(parley, tmp_path):
    (tmp_path / "cities.csv").write_text(CSV)
    done = parley(
        "chat", "report", "make a report", "--file", "cities.csv", "--save", "out", "--answers", typed="Markdown\n"
    )
    assert done.code == 0, done.happened
    assert "people" in (tmp_path / "out" / "report.md").read_text()
    assert (tmp_path / "out" / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert parley("chat", "countdown", "3").said == "3\n2\n1\nLift-off.\n"


def test_plan_runs_step_by_step(parley):
    assert "trip" in parley("plans").said
    inputs = {"city": "Lisbon", "departure": "Porto", "arrival": "2027-05-03", "nights": "3"}
    words = [word for name, value in inputs.items() for word in ("--input", f"{name}={value}")]
    done = parley("plans", "run", "trip", *words, "--save", "trip")
    assert done.code == 0, done.happened
    assert "Itinerary: done" in done.happened
    assert "Lisbon" in Path("trip/itinerary.md").read_text()
    again = parley("plans", "run", done.happened.split()[1])
    assert (again.code, "Itinerary: done" in again.happened) == (0, True)
    assert parley("plans", "run", "trip").code == 1


def test_what_waits_is_listed_continued_and_canceled(parley):
    asked = parley("chat", "countdown", "--json", typed="-1")
    waiting = json.loads(asked.said.splitlines()[-1])["task"]
    assert (asked.code, waiting["state"]) == (3, "input-required")
    assert waiting["id"] in parley("tasks", "--waiting").said
    assert parley("chat", "countdown", "1", "--session", waiting["sessionId"]).said == "1\nLift-off.\n"
    assert parley("tasks", "cancel", waiting["id"]).code == 1
    assert "completed" in parley("tasks", "show", waiting["id"]).said
