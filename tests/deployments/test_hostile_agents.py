"""An agent that takes, breaks or leaves what it can ends alone: the keeper says why, and others go on."""

from __future__ import annotations

import os
import signal

import pytest

from tests.deployments.keeping import ANSWER, LISTEN, call, running, until

STRAY = (
    LISTEN
    + """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(3600)
    os._exit(0)
os.wait()
"""
)


@pytest.mark.parametrize("kept", [("--watch", "3600")], indirect=True)
def test_memory_hog_ends(kept):
    well = kept.ask("well", ANSWER)["socket"]
    assert "socket" in kept.ask(
        "hog", LISTEN + "server = listen()\nheld = []\nwhile True: held.append(b'x' * 2**20)\n", memory=64
    )
    assert "(exit code 1). Its last line: MemoryError" in kept.why_gone("hog")
    assert call(well) == "well"


def test_family_shares_its_memory(kept):
    program = LISTEN + (
        "server = listen()\n[os.fork() for _ in range(3)]\nheld = b'x' * (30 * 2**20)\ntime.sleep(3600)\n"
    )
    kept.ask("family", program, memory=64)
    assert "MB of memory and may take 64" in kept.why_gone("family")
    until(lambda: not running(kept.data / "agents" / "family"))


def test_fork_bomb_ends(kept):
    well = kept.ask("well", ANSWER)["socket"]
    program = LISTEN + "server = listen()\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
    kept.ask("bomb", program, memory=4096, processes=30)
    assert "processes and may have 30" in kept.why_gone("bomb")
    until(lambda: not running(kept.data / "agents" / "bomb"))
    assert call(well) == "well"


def test_endless_log_stays_small(kept):
    well = kept.ask("well", ANSWER)["socket"]
    program = LISTEN + "server = listen()\nfor _ in range(1024): os.write(1, b'x' * 2**20)\n"
    kept.ask("loud", program)
    log = kept.data / "agents" / "loud" / "log"
    until(lambda: log.exists() and log.stat().st_size > 2**18)
    assert call(well) == "well"
    assert log.stat().st_size <= 2**20


def test_hanging_start_says_so(kept):
    said = kept.ask("asleep", "import time\nprint('Loading a model', flush=True)\ntime.sleep(3600)\n", start=0.5)
    assert said["error"] == "Its process did not answer within 0 s. Its last line: Loading a model"
    assert not running(kept.data / "agents" / "asleep")


def test_failing_start_says_its_last_line(kept):
    said = kept.ask("broken", "raise ValueError('no key')\n")
    assert said["error"] == "Its process ended as it started (exit code 1). Its last line: ValueError: no key"


def test_failing_agent_waits_before_next_start(kept):
    kept.ask("broken", "raise ValueError('no key')\n")
    assert "It starts again in" in kept.ask("broken", "raise ValueError('no key')\n")["error"]


def test_killed_agent_starts_again(kept):
    kept.ask("well", ANSWER)
    os.kill(*running(kept.data / "agents" / "well"), signal.SIGKILL)
    assert "signal 9" in kept.why_gone("well")
    until(lambda: "socket" in kept.ask("well", ANSWER))


def test_strays_end(kept):
    well = kept.ask("stray", STRAY + ANSWER)["socket"]
    until(lambda: len(running(kept.data / "agents" / "stray")) == 1)
    assert call(well) == "well"


@pytest.mark.parametrize("kept", [("--watch", "3600")], indirect=True)
def test_strays_end_with_a_killed_keeper(kept):
    kept.ask("stray", STRAY + ANSWER)
    assert len(running(kept.data / "agents" / "stray")) == 2
    os.kill(kept.pid, signal.SIGKILL)
    kept.guard.wait()
    assert not running(kept.data / "agents" / "stray")


def test_killed_keeper_is_replaced(kept):
    kept.ask("well", ANSWER)
    os.kill(kept.pid, signal.SIGKILL)
    kept.guard.wait()
    (kept.folder / "keeper").unlink()
    kept.start()
    assert call(kept.ask("well", ANSWER)["socket"]) == "well"


def test_second_keeper_ends(kept):
    second = type(kept)(kept.data, kept.folder)
    assert second.guard.wait() == 0
    second.disconnect()


@pytest.mark.parametrize("kept", [("--lonely", "1")], indirect=True)
def test_agents_end_when_nobody_is_connected(kept):
    kept.ask("well", ANSWER)
    kept.disconnect()
    assert kept.guard.wait() == 0
    assert not running(kept.data / "agents" / "well")
