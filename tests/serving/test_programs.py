"""A program that is forked is what an interpreter would make of it, and tells how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.programs import Call
from tests.stack import ROOT

TOLD = """
import os, sys
print(sys.argv, os.getcwd(), sys.path[0], os.environ["WHAT"], input())
print("aside", file=sys.stderr)
sys.exit(3)
"""
EITHER = pytest.mark.parametrize("forked", [True, False], ids=["forked", "started"])


@EITHER
def test_it_has_its_words_its_place_its_environment_and_what_it_reads(tmp_path: Path, *, forked: bool) -> None:
    (tmp_path / "program.py").write_text(TOLD)
    environment = {**os.environ, "WHAT": "this"}
    done = programs.run(["program.py", "a", "b"], tmp_path, environment, given="typed\n", forked=forked)
    assert done.stdout == f"['program.py', 'a', 'b'] {tmp_path} {tmp_path} this typed\n"
    assert (done.stderr, done.returncode) == ("aside\n", 3)


@EITHER
def test_it_has_run_out_of_time_and_is_gone(tmp_path: Path, *, forked: bool) -> None:
    lasts = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)"
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run(["-c", lasts], tmp_path, os.environ, forked=forked, timeout=3)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@EITHER
def test_a_signal_is_its_end_and_comes_too_late_without_an_error(tmp_path: Path, *, forked: bool) -> None:
    log = tmp_path / "log"
    program = Call(["-c", "import time; time.sleep(60)"], tmp_path, os.environ, log, log).start(forked=forked)
    program.kill()
    assert program.wait(20) == program.poll() == -signal.SIGKILL
    program.terminate()


def test_whoever_signals_one_that_ends_by_itself_hears_of_no_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for _ in range(10):
        program = Call(["-c", "pass"], tmp_path, os.environ, log, log).start(forked=True)
        while program.poll() is None:
            program.send_signal(0)
        assert program.poll() == 0


def test_all_libraries_that_are_read_beforehand_are_there() -> None:
    subprocess.run([sys.executable, "-m", programs.LIBRARIES], cwd=ROOT, check=True)
