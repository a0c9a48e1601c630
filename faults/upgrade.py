"""`python -m faults.upgrade [REF]`: a new version takes over from the one at REF while both serve.

REF is a git revision. By default it is the newest version's tag before HEAD, or else the commit before the newest
migration. Both versions run in the Python environment of this program, so REF has to work with its packages.
Prints a line and what was broken. Exits with 1 if something was.
"""

from __future__ import annotations

import argparse
import random
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from faults import judge
from faults.__main__ import Options, Trial
from faults.load import Client, GaveUp, Journeys
from faults.machine import machine
from faults.stage import Services, Unsteady, is_ready
from tests.stack import ROOT, free_port

RATE = 20.0  # calls a second
CLIENTS = 6  # of each tenant: enough for the rate
PHASE_SECONDS = 15.0
PREPARE_SECONDS = 1200.0  # it tries for 15 minutes
READ_SECONDS = 60.0  # longer than a client waits
BETWEEN_ENDS = 2.0  # seconds between the ends of two old processes
QUESTIONS, SESSIONS = 4, 4
LONG_COUNT = 1_500  # lines, more than the old processes have time for
MENDED = frozenset({"429", "503", "ConnectError", "ReadError", "RemoteProtocolError", "WriteError"})
"""After these a client may repeat its call: Parley says so, or the process has ended."""
MISFIT = re.compile(
    r"ERROR:  (?!prepared statement )"
    r".*(?:does not exist|not-null constraint|foreign key constraint|check constraint).*"
)
"""What PostgreSQL answers a process that does not fit its tables. Prepared statements go with each rollback."""
NOT_UNDERSTOOD = re.compile(
    r"(?:unregistered task|UndefinedColumn|UndefinedTable|ImportError|KeyError|TypeError|ValidationError):?[^\"\\\n]*"
)
"""What a process logs that does not understand what another version wrote."""


def old_revision(given: str = "") -> str:
    """The commit of the old version. Raises CalledProcessError if there is none."""
    if given:
        return _git("rev-parse", "--verify", f"{given}^{{commit}}")
    with suppress(subprocess.CalledProcessError):
        return _git("rev-list", "-n", "1", _git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"))
    newest = _git("log", "-1", "--format=%H", "--diff-filter=A", "--", ":(glob)apps/**/migrations/0*.py")
    return _git("rev-parse", "--verify", f"{newest}^")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The revision's files in a folder, with the agents and settings of this harness."""
    folder = Path(tempfile.mkdtemp(prefix="parley-old-"))
    try:
        with tempfile.TemporaryFile() as archive:
            subprocess.run(["git", "archive", revision], cwd=ROOT, stdout=archive, check=True)
            archive.seek(0)
            subprocess.run(["tar", "-x", "-C", folder], stdin=archive, check=True)
        shutil.copytree(ROOT / "faults", folder / "faults", dirs_exist_ok=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class TwoVersions(Services):
    """Two web servers, two workers and beat of the old version, and then as many of the new one."""

    workers, webs = 2, 2

    def __init__(self, old: Path) -> None:
        super().__init__()
        self.stack.root = old
        self.stack.command_seconds = PREPARE_SECONDS
        self.old = ["web", "web-2", *self.stack.workers, "beat"]
        self._urls = super().urls

    @property
    def urls(self) -> list[str]:
        """One list for the whole run, as callers of a load balancer have one address."""
        return self._urls

    def postgres_log(self) -> str:
        return self.postgres.log() if self.postgres else ""

    def migrate(self) -> tuple[int, float]:
        """What `prepare` of the new version does: so many migrations, in so many seconds."""
        self.stack.root = ROOT
        before, began = self._migrations(), time.monotonic()
        self.stack.manage("prepare")
        return self._migrations() - before, time.monotonic() - began

    @contextmanager
    def read_by_another(self) -> Iterator[None]:
        """A transaction that has read every table and stays open for a while, as that of a backup."""
        connection = psycopg.connect(self.database_url)
        for (table,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
            connection.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(sql.Identifier(table)))
        end = threading.Timer(READ_SECONDS, connection.close)
        end.start()
        try:
            yield
        finally:
            end.join()

    def _migrations(self) -> int:
        return int(self.query()("SELECT count(*) FROM django_migrations")[0][0])

    def start_new(self) -> None:
        webs = {f"web-{number}": free_port() for number in (3, 4)}
        workers = ["worker-3", "worker-4"]
        self.stack.webs |= webs
        self.stack.workers += workers
        for name in [*workers, *webs]:
            self.begin(name)
        new = [f"http://127.0.0.1:{port}" for port in webs.values()]
        self.stack.wait_until(lambda: all(map(self.stack.takes_work, workers)) and all(map(is_ready, new)))
        self._urls += new

    def end_old(self) -> None:
        """SIGTERM to one after the other; the new beat follows the old one."""
        for name in self.old:
            self.stack.terminate(name)
            del self.stack.processes[name]
            if name in self.stack.webs:
                gone = f"http://127.0.0.1:{self.stack.webs.pop(name)}"
                self._urls[self._urls.index(gone)] = self._urls[-1]
            elif name in self.stack.workers:
                self.stack.workers.remove(name)
            else:
                self.begin(name)
            time.sleep(BETWEEN_ENDS)
        self.roles = {"worker": self.stack.workers, "web": [*self.stack.webs], "beat": ["beat"]}


class Across:
    """Work that the old version begins and the new one ends: questions, sessions and a stream."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._work = Journeys(client, "", {})
        self._stream = threading.Thread(target=self._follow, daemon=True)
        self._asked: list[dict[str, Any]] = []
        self._opened: list[str] = []
        self.ended = 0

    def begin(self) -> None:
        self._stream.start()
        with suppress(GaveUp):
            self._asked += [self._work.ask() for _ in range(QUESTIONS)]
            self._opened += [self._work.open()["session"]["id"] for _ in range(SESSIONS)]

    def _follow(self) -> None:
        one = self._client
        apart = Client(one.tenant, one.urls, one.seen, random.Random("a client of its own"), one.pace)
        with suppress(GaveUp):
            Journeys(apart, "", {}).stream(LONG_COUNT)
            self.ended += 1

    def end(self) -> None:
        with suppress(GaveUp):
            for task in self._asked:
                self._work.answer(task)
                self.ended += 1
            for session in self._opened:
                self._work.go_on(session)
                self.ended += 1
        self._stream.join(machine.seconds(LONG_COUNT * 0.1))


class Upgrade(Trial):
    """The load, and meanwhile the steps of an upgrade."""

    rate = RATE
    stage: TwoVersions

    def __init__(self, options: Options, stage: TwoVersions, revision: str) -> None:
        super().__init__(options, stage)
        self.revision = revision
        self.migrations, self.migrating, self.carried = 0, 0.0, 0
        self.failures: list[str] = []
        self._phases: list[tuple[str, float, int]] = []

    def _break(self, client: Client) -> float:
        across = Across(client)
        self._phase("old alone")
        across.begin()
        time.sleep(self._seconds)
        self._phase("migration")
        with self.stage.read_by_another():
            self.migrations, self.migrating = self.stage.migrate()
        self._phase("old on new tables")
        time.sleep(self._seconds)
        self._phase("start of the new")
        self.stage.start_new()
        self._phase("both")
        time.sleep(self._seconds)
        self._phase("end of the old")
        self.stage.end_old()
        self._phase("new alone")
        across.end()
        time.sleep(self._seconds)
        self._phase("")
        self.carried = across.ended
        return time.monotonic()

    @property
    def _seconds(self) -> float:
        return self.options.minutes * 60

    def _phase(self, name: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {name or 'no more calls'}", flush=True)
        self._phases.append((name, time.monotonic(), self.seen.counts["calls"]))

    # Judging

    def _judge(self, *arguments: Any) -> None:
        super()._judge(*arguments)
        missing = QUESTIONS + SESSIONS + 1 - self.carried
        self.failures = self._failures()
        self.outcome.found |= {
            "only_what_may_be_is_repeated": unmended(self._repeated()),
            "what_the_old_began_the_new_ends": [f"{missing} of them did not"] if missing else [],
            "both_versions_fit_the_tables": lines_with(MISFIT, self.stage.postgres_log()),
            "both_versions_understand_each_other": lines_with(NOT_UNDERSTOOD, self.stage.stack.log()),
        }

    def _failures(self) -> list[str]:
        """Tasks that failed, with the reasons that people are told."""
        query = (
            "SELECT agent.slug || ' ' || task.id || ': ' || coalesce(task.status_message #>> '{parts,0,text}', '')"
            " FROM record_task task JOIN agents_agent agent ON agent.id = task.agent_id WHERE task.state = 'failed'"
        )
        return [str(row[0]) for row in self.stage.query()(query)]

    def _repeated(self) -> dict[str, int]:
        words = "calls repeated after "
        return {name.removeprefix(words): n for name, n in self.seen.counts.items() if name.startswith(words)}

    def _compare(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """All processes are new by now."""

    def line(self) -> str:
        """The figures, as `faults.figures` prints them."""
        figures = self.outcome.figures
        repeated = ", ".join(f"{why} {count}" for why, count in sorted(self._repeated().items())) or "none"
        parts = [
            f"{self.migrations} migrations, prepared in {self.migrating:.1f} s beside the old version",
            self._calls(),
            f"repeated: {repeated}",
            f"{figures['messages acknowledged']} messages acknowledged, {figures['lost']} lost",
            f"{figures['tasks']} tasks, {figures['completed']} completed, {len(self.failures)} failed",
            f"{figures['second terminals']} second terminals, {figures['gaps']} gaps, {figures['events']} events",
            f"{self.carried} pieces of work carried over",
            f"work took up to {machine.most:.1f} times as long as on an idle machine",
        ]
        return f"upgrade from {self.revision[:8]}: {'; '.join(parts)}"

    def _calls(self) -> str:
        """Calls a second, and how long reads took, by phase."""
        told = []
        for (name, began, calls), (_, ended, more) in pairwise(self._phases):
            took = sorted(seconds for at, seconds in self.seen.reads if began <= at < ended) or [0.0]
            rate, longest = (more - calls) / (ended - began), took[-1] * 1000
            told.append(f"{name} {rate:.0f}/s, {statistics.median(took) * 1000:.0f} ms, at most {longest:.0f} ms")
        return "; ".join(told)


def unmended(repeated: dict[str, int]) -> list[str]:
    """What clients should not have to repeat, of the numbers of repeated calls by what they got."""
    return [f"{count} calls repeated after {why}" for why, count in repeated.items() if why not in MENDED]


def lines_with(pattern: re.Pattern[str], log: str) -> list[str]:
    return [f"{count} times {line}"[:300] for line, count in Counter(pattern.findall(log)).most_common()]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m faults.upgrade", description="Upgrades under load, and judges.")
    parser.add_argument("ref", nargs="?", default="", metavar="REF", help="git revision of the old version")
    parser.add_argument("--seed", type=int, default=0, help="of the load; by default a new one")
    parser.add_argument("--seconds", type=float, default=PHASE_SECONDS, help="of each phase")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # also then nothing is left behind
    try:
        revision = old_revision(given.ref)
    except subprocess.CalledProcessError as error:
        parser.error(f"there is no old version: {error.stderr.strip()}")
    seed = given.seed or secrets.randbelow(10**6) + 1
    print(f"seed {seed}, old version {revision}", flush=True)
    options = Options(seed, given.seconds / 60, [], False, CLIENTS, "")
    machine.start()
    with checked_out(revision) as folder:
        trial = Upgrade(options, TwoVersions(folder), revision)
        try:
            outcome = trial.run()
        except (AssertionError, GaveUp, Unsteady, subprocess.TimeoutExpired) as error:
            print(f"upgrade from {revision[:8]}: BROKEN: a version does not serve, however long one waits: {error}")
            return 1
    broken = {rule: wrong for rule, wrong in outcome.found.items() if wrong}
    print(f"{trial.line()}{': BROKEN' if broken else ''}")
    for failure in trial.failures:
        print(f"failed: {failure}")
    for rule, wrong in broken.items():
        print(f"{rule}: broken {len(wrong)} times", *wrong[: judge.SHOWN], sep="\n    ")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
