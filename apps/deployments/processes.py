"""Finds the process of an agent that has a folder: asks the machine's keeper, and starts the keeper where none runs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from django.conf import settings

import agentkit
from agentkit import HandlerError
from agentkit.command.deploying import printable
from apps.agents.models import Agent
from apps.deployments import confinement, environments, folders, keeper
from apps.deployments.models import AgentSecret, Folder, fingerprint
from apps.remote.errors import Unreachable
from apps.remote.execution.runs import this_machine
from parley import db

LONGEST_FOLDER = 70  # characters
KEEPER_SECONDS = 15.0  # for it to start
KEEPER = "import sys; sys.path.append(sys.argv.pop(1)); from apps.deployments.keeper import begin; begin()"
"""A program. Of what is installed it finds only Python's own modules and Parley's."""
OUTSIDE = re.compile(r"CACHE|INSTALL_DIR|TOOL_DIR", re.I)
"""Variables of installers that name folders to write: an agent's are in its home."""
MOST_PLACES = 5  # of one agent on a machine
NOTICE_SECONDS = 5.0  # until the keeper has said that a process ended
USED_SECONDS = 60.0  # between notices that agents are in use

type Json = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """An agent's folder on this machine.

    Attributes:
        agent: its key, once it is registered.
        since: changes with the agent, and so with its secrets.
        secrets: names and values that it gets besides those that are stored.
    """

    slug: str
    digest: str
    agent: int | None = None
    since: str = ""
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, agent: Agent) -> Place | None:
        """Of the agent's loaded `current_version`; None if it has no folder."""
        return cls(agent.slug, agent.folder, agent.pk, str(agent.updated_at)) if agent.folder else None

    @property
    def name(self) -> str:
        return name_of(self.slug, self.digest)

    @property
    def home(self) -> Path:
        """Has `code`, `log`, and `home`, which its process may write."""
        return agents_folder() / self.name

    def log(self, most: int = 64 * 1024) -> str:
        """The end of what its process printed on this machine."""
        text = b""
        for name in ("log.old", "log"):
            with suppress(OSError):
                text += (self.home / name).read_bytes()
        return printable(text[-most:].decode(errors="replace"))


def name_of(slug: str, digest: str) -> str:
    return f"{slug[:40]}-{digest[:12]}"


def prune(slug: str, needed: Collection[str] = ()) -> None:
    """Delete the oldest environments of an agent on this machine, but those of the folders with a `needed` digest.

    If one is called again, it is made again.
    """
    names = {name_of(slug, digest) for digest in needed}
    places = sorted(agents_folder().glob(f"{slug[:40]}-{'[0-9a-f]' * 12}"), key=lambda one: one.stat().st_mtime)
    for old in places[:-MOST_PLACES]:
        if old.name not in names:
            shutil.rmtree(old, ignore_errors=True)


def all_places() -> list[Path]:
    """The homes of agents in DATA_DIR, also those of other machines that share it."""
    return list(agents_folder().parent.glob(f"*/?*-{'[0-9a-f]' * 12}"))


async def socket_of(agent: Agent) -> str:
    """The path of the agent's socket, whose `current_version` is loaded; "" if it has no folder. Raises Unreachable."""
    place = Place.of(agent)
    return await socket_at(place) if place else ""


async def socket_at(place: Place, say: Callable[[str], None] = lambda line: None) -> str:
    """The path of its socket. Starts its process where it does not run. `say` gets lines of progress.

    Raises Unreachable.
    """
    connection = _connection()
    path, since = connection.sockets.get(place.name, ("", ""))
    if path and since == place.since:
        connection.used.add(place.name)
        return path
    try:
        wanted = await db.run(_wanted, place)
    except (HandlerError, Folder.DoesNotExist, OSError) as error:
        raise Unreachable(f"The agent's process cannot start. {error}", is_transient=False) from None
    try:
        return await connection.run(place, wanted, say)
    except KeeperEnded:
        return await connection.run(place, wanted, say)


async def why_it_ended(agent: Agent) -> str:
    """Why its process ended last, as this process has heard; "" if it has not."""
    place, connection = Place.of(agent), _connection()
    if place is None:
        return ""
    with suppress(TimeoutError):
        async with asyncio.timeout(NOTICE_SECONDS):
            while (known := connection.sockets.get(place.name)) and not await _answers(known[0]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # the keeper is about to say so
    return connection.ended.get(place.name, "")


async def _answers(path: str) -> bool:
    with suppress(OSError):
        _, writer = await asyncio.open_unix_connection(path)
        writer.close()
        return True
    return False


def _wanted(place: Place) -> Json:
    """What the keeper is asked for. Unpacks the folder on this machine.

    Raises HandlerError, Folder.DoesNotExist.
    """
    root = place.home
    code = root / "code"
    if not code.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        folders.unpack(bytes(Folder.objects.get(pk=place.digest).archive), code)
    secrets = dict(AgentSecret.objects.filter(agent=place.agent).values_list("name", "value")) | dict(place.secrets)
    kit = environments.link_kit(agents_folder() / "kit")
    wanted = environments.plan(code, root / "home", kit, secrets, keeper_folder() / place.name / "a2a")
    installing = {name: value for name, value in wanted["setup_environment"].items() if not OUTSIDE.search(name)}
    wanted |= {"setup_environment": installing}
    for what, paths in (("read", _readable(kit)), ("programs", _programs(wanted)), ("hidden", _hidden())):
        wanted[what] = [str(one) for one in paths]
    running = {name: value for name, value in wanted.items() if name != "setup_environment"}
    key = f"{place.name}-{fingerprint(json.dumps(running, sort_keys=True))}"
    return {"key": key, "name": place.slug, **wanted}


def _readable(kit: Path) -> Iterator[Path]:
    yield from (kit, Path(agentkit.__file__).parent.resolve(), Path(sys.prefix, "pyvenv.cfg"))
    yield Path(keeper.__file__).parents[2] / "pyproject.toml"  # where uv looks for a workspace


def _programs(wanted: Json) -> Iterator[Path]:
    """Python's, with what Parley needs of packages, and Node.js's."""
    yield from (Path(sys.base_prefix), Path(sys.prefix))
    if node := shutil.which("node", path=wanted["environment"]["PATH"]):
        yield Path(node).resolve().parents[1]


def _hidden() -> Iterator[Path]:
    yield Path(settings.DATA_DIR).resolve()
    yield Path(keeper.__file__).parents[2] / ".env"


def agents_folder() -> Path:
    """Of this machine or container: several may share DATA_DIR, and each has its keeper and environments."""
    host = re.sub(r"[^a-z0-9-]+", "-", this_machine())[:24]
    return Path(settings.DATA_DIR).resolve() / "agents" / host


@cache
def _keeper_version() -> str:
    """Keepers of two versions work side by side while an upgrade goes on."""
    return fingerprint(*(Path(str(module.__file__)).read_text() for module in (keeper, confinement)))[:8]


def keeper_folder() -> Path:
    """The folder of the keeper's lock and sockets, which only this user reads.

    It is in DATA_DIR, because units and containers have a /tmp of their own; where its name is too long for a socket's
    path, which has at most 107 bytes, it is in the folder for temporary files.
    """
    at = agents_folder() / f"run-{_keeper_version()}"
    if len(str(at)) > LONGEST_FOLDER:
        at = Path(tempfile.gettempdir()) / f"parley-{os.getuid()}-{fingerprint(str(at))[:8]}"
    at.mkdir(mode=0o700, parents=True, exist_ok=True)
    if at.stat().st_uid != os.getuid() or at.is_symlink():
        raise HandlerError(f"{at} belongs to somebody else. Remove it.")
    return at


class KeeperEnded(Unreachable):
    """It may have another now."""


class Connection:
    """To the keeper, of one event loop.

    Attributes:
        sockets: of agents that run, by their places' names; with `Place.since`.
        ended: why agents' processes ended, by the same.
        used: places that were called since the keeper was told last.
    """

    def __init__(self) -> None:
        self.sockets: dict[str, tuple[str, str]] = {}
        self.ended: dict[str, str] = {}
        self.used = set[str]()
        self._names: dict[str, str] = {}
        self._keys: dict[str, str] = {}  # the newest, by places' names
        self._asked: dict[int, tuple[asyncio.Future[str], Callable[[str], None]]] = {}
        self._numbers = count(1)
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._opening = asyncio.Lock()

    async def run(self, place: Place, wanted: Json, say: Callable[[str], None]) -> str:
        """The agent's socket. Raises Unreachable."""
        async with self._opening:
            if self._writer is None:
                await self._open()
        assert self._writer is not None
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        self._asked[number] = answer, say
        self._names[wanted["key"]], self._keys[place.name] = place.name, wanted["key"]
        self._writer.write(json.dumps({"id": number, "run": wanted}).encode() + b"\n")
        try:
            path: str = await answer
        finally:
            del self._asked[number]
        self.sockets[place.name] = path, place.since
        self.ended.pop(place.name, None)
        return path

    async def _open(self) -> None:
        folder = await asyncio.to_thread(keeper_folder)
        loop = asyncio.get_running_loop()
        until, started = loop.time() + KEEPER_SECONDS, None
        while True:
            with suppress(OSError):
                path = (folder / keeper.ADDRESS).read_text()
                reader, self._writer = await asyncio.open_unix_connection(path)
                break
            if loop.time() > until:
                raise Unreachable("The keeper of agents' processes did not start: see agents/keeper.log in DATA_DIR.")
            if started is None or started.poll() is not None:  # it ends where an older one still cleans up
                started = await asyncio.to_thread(start_keeper, folder)
            await asyncio.sleep(0.1)
        self._tasks = [asyncio.create_task(self._read(reader, self._writer)), asyncio.create_task(self._tell_use())]

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self._heard(json.loads(line))
        except OSError:
            pass
        finally:
            self.sockets.clear()
            self._writer = None
            for answer, _ in self._asked.values():
                if not answer.done():
                    answer.set_exception(KeeperEnded("The keeper of agents' processes ended."))
            self._tasks.pop().cancel()
            self._tasks.clear()
            writer.close()

    def _heard(self, said: Json) -> None:
        if "gone" in said:
            name = self._names.pop(said["gone"], "")
            if self._keys.get(name) == said["gone"]:
                self.sockets.pop(name, None)
                self.ended[name] = said["why"]
        elif said["id"] in self._asked:
            answer, say = self._asked[said["id"]]
            if "progress" in said:
                say(said["progress"])
            elif not answer.done() and "socket" in said:
                answer.set_result(said["socket"])
            elif not answer.done():
                answer.set_exception(Unreachable(f"The agent's process does not run. {said['error']}"))

    async def _tell_use(self) -> None:
        while self._writer is not None:
            await asyncio.sleep(USED_SECONDS)
            keys = [key for name in self.used if (key := self._keys.get(name))]
            self.used.clear()
            self._writer.write(json.dumps({"used": keys}).encode() + b"\n")


_connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Connection] = weakref.WeakKeyDictionary()


def _connection() -> Connection:
    return _connections.setdefault(asyncio.get_running_loop(), Connection())


def start_keeper(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start the machine's keeper; one that finds another running ends. It outlives this process."""
    agents_folder().mkdir(parents=True, exist_ok=True)
    with (agents_folder() / "keeper.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603 our own program
            [sys.executable, "-I", "-S", "-c", KEEPER, str(Path(keeper.__file__).parents[2]), str(folder), *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env={"PATH": environments.PATH},
        )  # fmt: skip
