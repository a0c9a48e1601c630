"""The faults: what each breaks, and how it is mended. `FAULTS` has them by name."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import redis

from faults.load import Client, GaveUp
from faults.stage import LEASE, Stage

JSON = dict[str, Any]
FAKETIME = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")  # for threads


class Fault:
    """`inject` breaks something, `hold` is how long it stays so, and `undo` mends it.

    After `undo` the harness waits until Parley stands again. `away`: seconds of long outages.
    """

    hold = 0.0

    def __init__(self, stage: Stage, chance: random.Random, client: Client, away: float) -> None:
        self.stage, self.chance, self.client, self.away = stage, chance, client, away

    @classmethod
    def obstacle(cls, stage: Stage) -> str:
        """Why it cannot be tried here, or ""."""
        return ""

    def inject(self) -> None:
        raise NotImplementedError

    def undo(self) -> None:
        """By default the restart of what has ended is enough."""


def on_services(stage: Stage) -> str:
    return "" if stage.postgres else "there is one process, without PostgreSQL and Redis"


class KillWorker(Fault):
    """SIGKILL of a worker, or of two."""

    role, most = "worker", 2

    @classmethod
    def obstacle(cls, stage: Stage) -> str:
        return "" if cls.role in stage.roles else on_services(stage)

    def inject(self) -> None:
        names = self.stage.roles[self.role]
        for name in self.chance.sample(names, self.chance.randint(1, min(self.most, len(names)))):
            self.stage.kill(name)


class KillWeb(KillWorker):
    """SIGKILL of one web server, or of all."""

    role = "web"


class KillBeat(KillWorker):
    """SIGKILL of the periodic jobs' clock."""

    role, most = "beat", 1
    hold = 3.0


class KillServe(KillWorker):
    """SIGKILL of the one process of the embedded profile."""

    role, most = "serve", 1

    @classmethod
    def obstacle(cls, stage: Stage) -> str:
        return "" if "serve" in stage.roles else "there are several processes"


class KillAll(Fault):
    """SIGKILL of every process at once."""

    def inject(self) -> None:
        for names in self.stage.roles.values():
            for name in names:
                self.stage.kill(name)


class Freeze(Fault):
    """SIGSTOP of one process for longer than a lease: it goes on without knowing that its runs are another's."""

    hold = LEASE + 3
    _name = ""

    def inject(self) -> None:
        roles = [names for role, names in self.stage.roles.items() if role != "beat"]
        self._name = self.chance.choice(self.chance.choice(roles))
        self.stage.signal(self._name, signal.SIGSTOP)

    def undo(self) -> None:
        self.stage.signal(self._name, signal.SIGCONT)


class DatabaseRestart(Fault):
    """PostgreSQL ends as in a crash and starts at once."""

    obstacle = staticmethod(on_services)

    def inject(self) -> None:
        assert self.stage.postgres
        self.stage.postgres.restart("immediate")


class DatabaseAway(Fault):
    """PostgreSQL is gone for a while."""

    obstacle = staticmethod(on_services)

    def inject(self) -> None:
        assert self.stage.postgres
        self.hold = self.away
        self.stage.postgres.stop("immediate")

    def undo(self) -> None:
        assert self.stage.postgres
        self.stage.postgres.start()


class BrokerFlush(Fault):
    """Redis forgets everything: queued messages and notifications."""

    obstacle = staticmethod(on_services)

    def inject(self) -> None:
        assert self.stage.redis
        with redis.Redis.from_url(self.stage.redis.url) as broker:
            for _ in range(20):
                broker.flushall()
                time.sleep(0.1)


class BrokerAway(Fault):
    """Redis is killed, and comes back empty."""

    obstacle = staticmethod(on_services)

    def inject(self) -> None:
        assert self.stage.redis
        self.hold = self.away
        self.stage.redis.kill()

    def undo(self) -> None:
        assert self.stage.redis
        self.stage.redis.start()


class Reset(Fault):
    """All connections to PostgreSQL and to Redis break, several times."""

    obstacle = staticmethod(on_services)

    def inject(self) -> None:
        lines = [line for line in (self.stage.database_line, self.stage.redis_line) if line]
        for _ in range(4):
            line = self.chance.choice(lines)
            line.cut()
            line.mend()
            time.sleep(0.5)


class Latency(Fault):
    """300 ms more for whatever is said to PostgreSQL, or to Redis."""

    hold = 6.0
    obstacle = staticmethod(on_services)

    def inject(self) -> None:
        assert self.stage.database_line
        assert self.stage.redis_line
        line = self.chance.choice([self.stage.database_line, self.stage.redis_line])
        line.delay = 0.3

    def undo(self) -> None:
        for line in (self.stage.database_line, self.stage.redis_line):
            assert line
            line.delay = 0.0


class DoubledMessages(Fault):
    """Each message in the broker's lists twice, in another order. Workers stand still until some have come together."""

    hold = 1.0
    obstacle = staticmethod(on_services)

    def inject(self) -> None:
        for name in self.stage.roles["worker"]:
            self.stage.signal(name, signal.SIGSTOP)
        time.sleep(LEASE / 2)

    def undo(self) -> None:
        assert self.stage.redis
        with redis.Redis.from_url(self.stage.redis.url) as broker:
            for key in broker.scan_iter(f"{self.stage.stack.name}*", _type="list"):
                messages = broker.lrange(key, 0, -1)
                doubled = [*messages, *map(_another, messages)]
                self.chance.shuffle(doubled)
                with broker.pipeline() as together:
                    together.delete(key)
                    if doubled:
                        together.rpush(key, *doubled)
                    together.execute()
                self.client.seen.count("messages doubled", len(messages))
        for name in self.stage.roles["worker"]:
            self.stage.signal(name, signal.SIGCONT)


def _another(message: bytes) -> bytes:
    """The same message, as another delivery."""
    content = json.loads(message)
    content["properties"]["delivery_tag"] = str(uuid.uuid4())
    return json.dumps(content).encode()


RESUME = """
import django
django.setup()
from apps.agents.models import Agent
from apps.engine.activity import set_activity
from apps.installation.models import Activity
set_activity(Agent.objects.get(slug="poison"), Activity.ACTIVE)
"""


class PoisonRun(Fault):
    """A run that kills each process that executes it: it takes one worker at most, then fails alone."""

    agent, _task, most_kills = "poison", "", 1

    def inject(self) -> None:
        if self.stage.query()(f"SELECT id FROM agents_agent WHERE slug = '{self.agent}' AND activity = 'paused'"):
            self.stage.stack.python("-c", RESUME)  # as an operator does after three kills within an hour
        threading.Thread(target=self._send, daemon=True).start()  # the embedded profile may die before it answers

    def _send(self) -> None:
        said = self.client.message("Drink this.")
        self._task = self.client.send(self.agent, said)["id"]
        self.client.acknowledged(said, self._task)

    def undo(self) -> None:
        deadline, before = time.monotonic() + 240, self.stage.kills
        while not (self._task and self._has_failed()):
            self.stage.kills += self.stage.revive()
            if time.monotonic() > deadline:
                raise GaveUp(self.agent)
            time.sleep(0.5)
        if (kills := self.stage.kills - before) > self.most_kills:
            raise GaveUp(f"{self.agent} took {kills} processes")

    def _has_failed(self) -> bool:
        key = self._task if self.stage.postgres else uuid.UUID(self._task).hex
        return bool(self.stage.query()(f"SELECT id FROM record_task WHERE state = 'failed' AND id = '{key}'"))


class ExitingRun(PoisonRun):
    """A run that exits: it fails, and no process ends."""

    agent, most_kills = "exiting", 0


class FullDisk(Fault):
    """Nothing more can be written where the database is."""

    hold = 5.0

    @classmethod
    def obstacle(cls, stage: Stage) -> str:
        return "" if stage.disk else "mounting a small disk is not allowed"

    def inject(self) -> None:
        assert self.stage.disk
        self.stage.disk.fill()

    def undo(self) -> None:
        assert self.stage.disk
        self.stage.disk.free()
        if self.stage.postgres:
            self.stage.postgres.ensure()


class WrongClock(Fault):
    """One worker's clock is an hour ahead, or behind."""

    hold = 8.0
    _name = ""

    @classmethod
    def obstacle(cls, stage: Stage) -> str:
        return "libfaketime is not installed" if not _faketime() else on_services(stage)

    def inject(self) -> None:
        self._name = self.chance.choice(self.stage.roles["worker"])
        self.stage.kill(self._name)
        offset = self.chance.choice(["+1h", "-1h"])
        self.stage.begin(self._name, LD_PRELOAD=_faketime(), FAKETIME=offset, DONT_FAKE_MONOTONIC="1")
        self.stage.stand()

    def undo(self) -> None:
        self.stage.kill(self._name)


def _faketime() -> str:
    found = [str(path) for pattern in FAKETIME for path in Path("/").glob(pattern.lstrip("/"))]
    return found[0] if found else ""


class Deploy(Fault):
    """SIGTERM to one process after the other, each started again at once, as a new version is rolled out."""

    def inject(self) -> None:
        for names in self.stage.roles.values():
            for name in names:
                process = self.stage.stack.processes[name]
                process.terminate()
                process.wait(90)
                self.stage.begin(name)
                time.sleep(1)


FAULTS: dict[str, type[Fault]] = {
    "kill-worker": KillWorker,
    "kill-web": KillWeb,
    "kill-beat": KillBeat,
    "kill-serve": KillServe,
    "kill-all": KillAll,
    "freeze": Freeze,
    "database-restart": DatabaseRestart,
    "database-away": DatabaseAway,
    "broker-flush": BrokerFlush,
    "broker-away": BrokerAway,
    "reset": Reset,
    "latency": Latency,
    "doubled-messages": DoubledMessages,
    "poison-run": PoisonRun,
    "exiting-run": ExitingRun,
    "full-disk": FullDisk,
    "wrong-clock": WrongClock,
    "deploy": Deploy,
}


class Schedule:
    """Faults in a random order, each once before any comes again."""

    def __init__(self, names: list[str], chance: random.Random) -> None:
        self._names, self._chance, self._left = names, chance, list[str]()

    def next(self) -> str:
        if not self._left:
            self._left = self._chance.sample(self._names, len(self._names))
        return self._left.pop()
