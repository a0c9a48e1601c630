"""Keeps the processes of agents that have a folder: one keeper per machine, a program that needs only Python.

Parley's processes start it, connect to its Unix socket, and ask for agents, a JSON object a line (`Keeper.answer`). An
agent's process outlives the worker that asked for it, and ends a moment after the last of Parley's. A process that
takes too much ends with all that it started; nobody else notices. `confinement` says what a process may touch.

Agents run as the same user as Parley, and a kernel that confines files may still let them connect to any socket whose
path they know. So sockets are moved to a folder with a secret name as soon as they listen.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import fcntl
import json
import os
import re
import resource
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from apps.deployments import confinement  # which needs only Python, too

LONELY_SECONDS = 15.0  # without anybody connected, until all ends
LAST_WORDS_SECONDS = 2.0  # to read what an ended process printed
WATCH_SECONDS = 1.0
BACKOFF_SECONDS = (0.5, 60.0)  # between starts of an agent that ends: the first and the longest
ADDRESS = "keeper"  # a file in the keeper's folder: where its socket is
SHORT_SECONDS = 3.0  # which a message waits, if the agent answered before it ended
STEADY_SECONDS = 60.0  # after which an agent that runs may end without a longer wait
OLD_SECONDS = 3600.0  # without use, until an agent's earlier version ends
LOG_BYTES = 1024 * 1024  # of a log file, of which one older is kept
LOG_RATE = 256 * 1024  # bytes a second that an agent may print; then it waits
SETUP_SECONDS = 900.0
LONGEST_REQUEST = 1024 * 1024
LONGEST_LINE = 300  # characters of a log's last line in an error
ERROR = re.compile(r"\W*(\w*Error|error|fatal)\b", re.I)  # begins a line that says more than those after it
PDEATHSIG, SUBREAPER = 1, 36  # of prctl
ROUNDS = 200  # of killing processes that start others meanwhile
MEGABYTE = 1024 * 1024

type Json = dict[str, Any]
type Say = Callable[[Json], None]


class Ended(Exception):
    """The agent does not run. The text says why, for people."""


class Limits(NamedTuple):
    """What an agent may take: `memory` of all its processes, a `file` in megabytes, and seconds to `start`."""

    memory: int = 512
    processes: int = 64
    file: int = 256
    start: float = 30.0


SETUP_LIMITS = Limits(memory=4096, processes=512)


class Times(NamedTuple):
    """Seconds, which tests shorten."""

    lonely: float = LONELY_SECONDS
    watch: float = WATCH_SECONDS


@dataclass(eq=False)
class Agent:
    """An agent's process, and what it was asked to be: see `Keeper.answer`.

    Attributes:
        home: what it writes. Its log and what the keeper notes are beside it, where it cannot change them.
        read, programs, hidden: what it may read, and what not, as of `confinement.Allowed`.
        moved_socket: where its socket is once it listens. It does not know the folder.
        on_end: called when a process of it ended.
        held_to: the limits of what runs now.
        why: why its newest process ended; "" if it has not.
        waited: seconds to wait before the next start.
    """

    key: str
    name: str
    folder: Path
    home: Path
    setup: list[list[str]]
    run: list[str]
    environment: dict[str, str]
    setup_environment: dict[str, str]
    limits: Limits
    read: list[Path]
    programs: list[Path]
    hidden: list[Path]
    moved_socket: Path
    on_end: Callable[[], None]
    held_to: Limits = SETUP_LIMITS
    process: asyncio.subprocess.Process | None = None
    logging: asyncio.Task[None] | None = None
    waiting: asyncio.Task[None] | None = None
    since: float = 0.0
    used: float = 0.0
    waited: float = 0.0
    why: str = ""
    last_line: str = ""
    has_answered: bool = False
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def socket(self) -> Path:
        """Where it listens first."""
        return Path(self.environment["A2A_SOCKET"])

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def ensure(self, say: Say) -> str:
        """The path of its socket, once it answers there. Raises Ended."""
        self.used = time.monotonic()
        async with self.busy:
            if not self.is_running:
                await self._prepare(say)
                await self._start(say)
        return str(self.moved_socket)

    async def _prepare(self, say: Say) -> None:
        """Make its environment, once on this machine."""
        done = self.home.with_name("ready")
        if done.exists() and done.read_text() == json.dumps(self.setup):
            return
        for command in self.setup:
            say({"progress": f"{Path(command[0]).name} {' '.join(command[1:])}"})
            await self._spawn(command, is_setup=True)
            process = self.process
            assert process is not None
            try:
                async with asyncio.timeout(SETUP_SECONDS):
                    code = await process.wait()
            except TimeoutError:
                await self.end()
                raise Ended(f"Its environment was not ready after {SETUP_SECONDS:.0f} s.") from None
            if self.logging:
                await self.logging
            if code:
                raise Ended(f"Its environment cannot be made: {self.why or self.last_line or f'exit code {code}'}")
        done.write_text(json.dumps(self.setup))

    async def _start(self, say: Say) -> None:
        wait = self.since + self.waited - time.monotonic()
        if wait > 0 and self.why:
            if not self.has_answered or wait > SHORT_SECONDS:
                raise Ended(f"{self.why} It starts again in {wait:.0f} s.")
            await asyncio.sleep(wait)
        self.has_answered = False
        say({"progress": "starting"})
        shutil.rmtree(self.socket.parent, ignore_errors=True)
        self.socket.parent.mkdir(mode=0o700)
        self.why, self.since = "", time.monotonic()
        first, longest = BACKOFF_SECONDS
        self.waited = min(longest, max(first, 2 * self.waited))
        await self._spawn(self.run, is_setup=False)
        until = time.monotonic() + self.limits.start
        while not await self._answers():
            if not self.is_running:
                if self.logging:
                    await self.logging
                raise Ended(self._failed(self.why or f"Its process ended as it started ({self._code()})."))
            if time.monotonic() > until:
                await self.end(f"Its process did not answer within {self.limits.start:.0f} s.")
                raise Ended(self._failed(self.why))
            await asyncio.sleep(0.02)
        try:
            self.socket.rename(self.moved_socket)
        except OSError:
            await self.end("It took its socket away.")
            raise Ended(self.why) from None
        self.has_answered = True

    def _failed(self, why: str) -> str:
        self.why = f"{why} Its last line: {self.last_line}" if self.last_line else why
        return self.why

    async def _answers(self) -> bool:
        with suppress(OSError):
            _, writer = await asyncio.open_unix_connection(self.socket)
            writer.close()
            return True
        return False

    async def _spawn(self, command: list[str], *, is_setup: bool) -> None:
        environment = {**self.environment, **(self.setup_environment if is_setup else {})}
        environment |= {"HOME": str(self.home), "TMPDIR": str(self.home / "tmp")}
        (self.home / "tmp").mkdir(parents=True, exist_ok=True)
        self.last_line, self.held_to = "", SETUP_LIMITS if is_setup else self.limits
        rules = confinement.ruleset(self._allowed(command[0], is_setup=is_setup))
        try:
            self.process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self.folder,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: confine(None if is_setup else self.limits, rules),
            )
        except OSError as error:
            raise Ended(f"{command[0]} cannot be started: {error.strerror or error}.") from None
        finally:
            if rules is not None:
                os.close(rules)
        self.logging = asyncio.create_task(self._log(self.process))
        self.waiting = asyncio.create_task(self._wait(self.process))

    def _allowed(self, program: str, *, is_setup: bool) -> confinement.Allowed:
        """While its environment is made it may also write its code's folder, and read this machine's certificates."""
        given = filter(os.path.isabs, self.setup_environment.values() if is_setup else ())
        found = shutil.which(program, path=self.environment["PATH"]) or program
        return confinement.Allowed(
            read=[*self.read, Path(found).resolve(), self.folder, *map(Path, given)],
            write=[self.home, *([self.folder] if is_setup else [])],  # where npm puts packages
            listen=[self.socket.parent],
            programs=self.programs,
            hidden=self.hidden,
        )

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        if self.logging:  # which its children may hold open
            await asyncio.wait({self.logging}, timeout=LAST_WORDS_SECONDS)
        self.on_end()

    async def _log(self, process: asyncio.subprocess.Process) -> None:
        """Keep what it prints. One that prints more than LOG_RATE waits."""
        assert process.stdout is not None
        at = self.home.with_name("log")
        with at.open("ab", buffering=0) as file:
            while piece := await process.stdout.read(64 * 1024):
                if file.tell() + len(piece) > LOG_BYTES:
                    at.with_suffix(".old").write_bytes(at.read_bytes())
                    file.truncate(0)
                file.write(piece)
                for line in filter(str.strip, piece.decode(errors="replace").splitlines()):
                    if ERROR.match(line) or not ERROR.match(self.last_line):
                        self.last_line = line.strip()[:LONGEST_LINE]
                await asyncio.sleep(len(piece) / LOG_RATE)

    def _code(self) -> str:
        code = self.process.returncode if self.process else None
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    def notice_end(self) -> bool:
        """Has its process ended since the last look?"""
        if self.process is None or self.waiting is None or not self.waiting.done():
            return False
        self.why = self.why or self._failed(f"Its process ended ({self._code()}).")
        if time.monotonic() - self.since > STEADY_SECONDS:
            self.waited = 0.0
        self.process = None
        return True

    async def end(self, why: str = "") -> None:
        """End it with all that it started."""
        self.why = why or self.why
        if self.process is None:
            return
        if self.is_running:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)  # at once, also those that just start others
        for _ in range(ROUNDS):
            if not kill([one for one in processes() if self.owns(one)]):
                break
            await asyncio.sleep(0.02)
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    def owns(self, one: Process) -> bool:
        return self.process is not None and self.process.pid in (one.pid, one.session, *one.ancestors)

    async def watch(self, all_processes: list[Process]) -> None:
        """End it if it takes more than it may."""
        members = [one for one in all_processes if self.owns(one)]
        memory = sum(one.memory for one in members) // MEGABYTE
        if memory > self.held_to.memory:
            await self.end(f"It took {memory} MB of memory and may take {self.held_to.memory}.")
        elif len(members) > self.held_to.processes:
            await self.end(f"It started {len(members)} processes and may have {self.held_to.processes}.")


class Process(NamedTuple):
    """A process of this machine; `memory` in bytes."""

    pid: int
    session: int
    memory: int
    ancestors: tuple[int, ...]


def processes() -> list[Process]:
    """All that run; none where there is no /proc."""
    found = {pid: (parent, session, memory) for pid, parent, session, memory in _read_processes()}

    def ancestors(pid: int) -> Iterator[int]:
        while (pid := found[pid][0]) in found:
            yield pid

    return [Process(pid, session, memory, tuple(ancestors(pid))) for pid, (_, session, memory) in found.items()]


def _read_processes() -> Iterator[tuple[int, int, int, int]]:
    page = resource.getpagesize()
    for entry in os.scandir("/proc") if os.path.isdir("/proc") else ():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    yield int(entry.name), int(fields[1]), int(fields[3]), int(fields[21]) * page


def kill(members: list[Process]) -> bool:
    """Kill them. Were there any?"""
    for one in members:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(one.pid, signal.SIGKILL)
    return bool(members)


def confine(limits: Limits | None, rules: int | None) -> None:
    """In a new process, before its program begins: it ends with the keeper, and takes no more than `limits`.

    `rules` are `confinement.ruleset`'s.
    """
    os.umask(0o077)
    os.nice(5)
    _prctl(PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits is not None:
        for which, megabytes in ((resource.RLIMIT_DATA, limits.memory), (resource.RLIMIT_FSIZE, limits.file)):
            resource.setrlimit(which, (megabytes * MEGABYTE, megabytes * MEGABYTE))
    confinement.enter(rules)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Keeper:
    """All agents of a machine, and who is connected."""

    def __init__(self, sockets: Path, times: Times) -> None:
        self.sockets, self.times = sockets, times
        self.agents: dict[str, Agent] = {}
        self.connected: set[Say] = set()
        self.lonely_since = time.monotonic()
        self._numbers = count(1)
        self._some_ended = asyncio.Event()
        self._strays: set[int] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One of Parley's processes."""

        def say(line: Json) -> None:
            if not writer.is_closing():
                writer.write(json.dumps(line).encode() + b"\n")

        self.connected.add(say)
        asked = set[asyncio.Task[None]]()
        try:
            while line := await reader.readline():
                task = asyncio.create_task(self.answer(json.loads(line), say))
                asked.add(task)
                task.add_done_callback(asked.discard)
        except (OSError, ValueError):
            pass
        finally:
            self.connected.discard(say)
            self.lonely_since = time.monotonic()
            writer.close()

    async def answer(self, asked: Json, say: Say) -> None:
        """`{"id", "run": {what Agent has}}`: lines with `progress`, then `{"id", "socket"}` or `{"id", "error"}`.

        `{"used": [key, …]}` and `{"end": key}` have no answer. `{"gone": key, "why"}` comes unasked.
        """
        if "used" in asked:
            for key in asked["used"]:
                if key in self.agents:
                    self.agents[key].used = time.monotonic()
            return
        if "end" in asked:
            if agent := self.agents.pop(asked["end"], None):
                await agent.end("It was stopped.")
            return
        given = asked["run"]
        agent = self.agents.get(given["key"]) or Agent(
            given["key"],
            given["name"],
            Path(given["folder"]),
            Path(given["home"]),
            given["setup"],
            given["run"],
            given["environment"],
            given["setup_environment"],
            Limits(**given["limits"]),
            [Path(one) for one in given["read"]],
            [Path(one) for one in given["programs"]],
            [Path(one) for one in given["hidden"]],
            self.sockets / str(next(self._numbers)),
            self._some_ended.set,
        )
        self.agents[agent.key] = agent
        try:
            path = await agent.ensure(lambda line: say({"id": asked["id"], **line}))
            say({"id": asked["id"], "socket": path})
        except Ended as why:
            say({"id": asked["id"], "error": str(why)})
        except Exception as error:
            say({"id": asked["id"], "error": f"The keeper failed: {type(error).__name__}: {error}"})

    async def watch(self) -> None:
        """Until nobody is connected for long."""
        while self.connected or time.monotonic() - self.lonely_since < self.times.lonely:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.times.watch):
                    await self._some_ended.wait()
            has_ended = self._some_ended.is_set()
            self._some_ended.clear()
            running = [one for one in self.agents.values() if one.is_running]
            found = processes() if running or has_ended or self._strays else []
            self._end_strays(found)
            for agent in running:
                await agent.watch(found)
            for agent in [one for one in self.agents.values() if not one.busy.locked()]:
                if agent.notice_end():
                    for say in self.connected:
                        say({"gone": agent.key, "why": agent.why})
            await self._end_old(time.monotonic())

    def _end_strays(self, found: list[Process]) -> None:
        """End what an agent started and left, so that the keeper inherited it.

        Not at the first look: it may be an agent's process that starts just now.
        """
        known = {one.process.pid for one in self.agents.values() if one.process is not None}
        strays = [one for one in found if one.ancestors[:1] == (os.getpid(),) and not {one.pid, one.session} & known]
        kill([one for one in strays if one.pid in self._strays])
        self._strays = {one.pid for one in strays}

    async def _end_old(self, now: float) -> None:
        newest = {one.name: one.key for one in sorted(self.agents.values(), key=lambda one: one.used)}
        for agent in list(self.agents.values()):
            if newest[agent.name] != agent.key and now - agent.used > OLD_SECONDS and not agent.busy.locked():
                del self.agents[agent.key]
                await agent.end("A newer version took its place.")


async def keep(folder: Path, sockets: Path, times: Times) -> None:
    """Keep agents until nobody asks."""
    _prctl(SUBREAPER, 1)
    keeper = Keeper(sockets, times)
    server = await asyncio.start_unix_server(keeper.serve, folder / "new", limit=LONGEST_REQUEST)
    (folder / "new").rename(sockets / "keeper")
    (folder / "address").write_text(str(sockets / "keeper"))
    (folder / "address").rename(folder / ADDRESS)
    ended = asyncio.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, ended.set)
    watching = asyncio.create_task(keeper.watch())
    await asyncio.wait({watching, asyncio.create_task(ended.wait())}, return_when=asyncio.FIRST_COMPLETED)
    (folder / ADDRESS).unlink(missing_ok=True)
    server.close()
    for agent in keeper.agents.values():
        await agent.end()


def main(folder: Path, times: Times) -> None:
    """Keep agents in a child process, and end all that it leaves when it ends, however that happens.

    Ends at once if another keeper has the folder. It is free only when nothing of the other runs.
    """
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    for old in folder.iterdir():
        if old.name != "lock":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    sockets = folder / secrets.token_hex(8)
    sockets.mkdir(mode=0o700)
    _prctl(SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        _prctl(PDEATHSIG, signal.SIGTERM)
        asyncio.run(keep(folder, sockets, times))
        return
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: os.kill(child, signal.SIGTERM))
    os.waitpid(child, 0)
    for _ in range(ROUNDS):
        if not kill([one for one in processes() if os.getpid() in one.ancestors]):
            break
        time.sleep(0.02)


def begin() -> None:
    """The program: `FOLDER [--lonely SECONDS] [--watch SECONDS]`."""
    parser = argparse.ArgumentParser(prog="keeper")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lonely", type=float, default=LONELY_SECONDS)
    parser.add_argument("--watch", type=float, default=WATCH_SECONDS)
    given = parser.parse_args()
    main(given.folder, Times(given.lonely, given.watch))
