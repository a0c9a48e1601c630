"""`python -m faults [--seed N] [--minutes M] [--only NAME,…] [--embedded]`: break everything, and judge by the record.

Prints a table, writes it to `var/faults/`, and exits with 1 if something was lost or wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import shutil
import signal
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults import history, judge
from faults.followers import EventsFollower, Follower, SocketFollower
from faults.history import INTERRUPTED, TERMINAL, Record, Seen
from faults.injections import FAULTS, Schedule
from faults.load import Client, GaveUp, Load, Pace, Tenant, answered
from faults.machine import machine
from faults.planted import DEFECTS
from faults.receiver import Receiver
from faults.stage import Embedded, Services, Stage, standing

TENANTS = ("alpha", "beta")
WARM_SECONDS = 8.0
STUCK_SECONDS = 60.0  # without any change of the record, while something is unfinished
CATCH_UP_SECONDS = 60.0  # without hearing anything new
PROMISED_SECONDS = 30.0  # until everything has ended or asks, on a machine that is not busy
REPORTS = Path("var/faults")
LONG_MINUTES = 15.0  # a run of so many minutes has long outages
AWAY_SECONDS = (5.0, 60.0)
MORE = 1.1  # times the memory and the open files of all processes

UNFINISHED = (
    "SELECT (SELECT count(*) FROM record_task WHERE state NOT IN ({settled})),"
    " (SELECT count(*) FROM record_run WHERE state IN ('queued', 'running')),"
    " (SELECT count(*) FROM a2a_delivery WHERE state = 'waiting'),"
    " (SELECT coalesce(sum(last_event), 0) FROM record_context)"
).format(settled=", ".join(f"'{state}'" for state in sorted(TERMINAL | INTERRUPTED)))


@dataclass
class Options:
    seed: int
    minutes: float
    only: list[str]
    embedded: bool
    clients: int
    planted: str

    @property
    def away(self) -> float:
        return AWAY_SECONDS[self.minutes >= LONG_MINUTES]

    @property
    def command(self) -> str:
        chosen = f" --only {','.join(self.only)}" if self.only else ""
        chosen += " --embedded" if self.embedded else ""
        chosen += f" --planted {self.planted}" if self.planted else ""
        return f"--seed {self.seed} --minutes {self.minutes:g} --clients {self.clients}{chosen}"


@dataclass
class Outcome:
    """What a run gave: figures, what each rule found, and what was not tried."""

    figures: dict[str, Any] = field(default_factory=dict)
    found: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return not any(self.found.values())


class Trial:
    """One run: load, faults, the wait until everything has ended, and the judgement."""

    rate = 0.0  # calls a second; 0: as many as the clients make

    def __init__(self, options: Options, stage: Stage) -> None:
        self.options, self.stage = options, stage
        self.pace = Pace(self.rate)
        self.seen, self.outcome = Seen(), Outcome()
        self.chance = random.Random(options.seed)

    def run(self) -> Outcome:
        with standing(self.stage, list(TENANTS)) as made:
            receiver = Receiver(self.seen, self.options.seed)
            tenants = [Tenant(name, **made[name]) for name in TENANTS]
            self.seen.marks = {tenant.name: tenant.mark for tenant in tenants}
            self.seen.owners = {tenant.name: tenant.user for tenant in tenants}
            followers = self._follow(tenants)
            load = Load(
                tenants, self.options.clients, self.stage.urls, receiver.url, self.seen, self.options.seed, self.pace
            )
            load.start()
            time.sleep(WARM_SECONDS)
            before = self.stage.measures()
            client = Client(tenants[0], self.stage.urls, self.seen, random.Random(self.options.seed), self.pace)
            ended_at = self._break(client)
            load.stop()
            settled = self._wait_until_settled(load) - ended_at
            self._catch_up(followers)
            receiver.close()
            self._judge(tenants, load, settled)
            self._compare(before, self.stage.measures())
            if not self.outcome.is_good:
                self._keep_logs()
        return self.outcome

    def _follow(self, tenants: list[Tenant]) -> list[Follower]:
        followers: list[Follower] = []
        for tenant in tenants:
            for kind in (EventsFollower, SocketFollower):
                chance = random.Random(f"{self.options.seed} {tenant.name} {kind.door}")
                followers.append(kind(tenant, self.stage.urls, self.seen, chance))
        for follower in followers:
            follower.start()
        for follower in followers:
            if not follower.is_placed.wait(machine.seconds(60)):
                raise GaveUp(f"{follower.door} of {follower.tenant.name} gets no place")
        return followers

    # Breaking

    def _names(self) -> list[str]:
        names = []
        for name in self.options.only or FAULTS:
            if obstacle := FAULTS[name].obstacle(self.stage):
                self.outcome.skipped[name] = obstacle
            else:
                names.append(name)
        return names

    def _break(self, client: Client) -> float:
        """Inject faults until the time is over; returns the time of the last one's end."""
        over = time.monotonic() + self.options.minutes * 60
        names = self._names()
        schedule = Schedule(names, self.chance)
        mended_at = time.monotonic()
        while names and time.monotonic() < over:
            name = schedule.next()
            fault = FAULTS[name](self.stage, self.chance, client, self.options.away)
            print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
            fault.inject()
            time.sleep(fault.hold)
            fault.undo()
            self.stage.stand()
            mended_at = time.monotonic()
            self.outcome.faults[name] = self.outcome.faults.get(name, 0) + 1
            time.sleep(self.chance.uniform(1, 4))
        return mended_at

    # Waiting, by the record

    def _wait_until_settled(self, load: Load) -> float:
        """Wait until nothing is unfinished, as long as the record grows; returns the time of the end."""
        newest: tuple[Any, ...] = ()
        changed_at = machine.now()
        while machine.now() - changed_at < STUCK_SECONDS:
            [now] = self.stage.query()(UNFINISHED)
            if not any(now[:3]) and not load.is_busy:
                return time.monotonic()
            if now != newest:
                newest, changed_at = now, machine.now()
            time.sleep(0.5)
        self.seen.abandoned.set()
        load.join()
        self.seen.abandoned.clear()
        return time.monotonic()

    def _catch_up(self, followers: list[Follower]) -> None:
        """Wait until followers have heard what the record has, as long as they hear new events."""
        contexts = self.stage.query()("SELECT id, last_event, owner_id FROM record_context")
        newest = {str(uuid.UUID(str(key))): (last, owner) for key, last, owner in contexts}
        tasks = self.stage.query()("SELECT id, context_id FROM record_task")
        context_of = {str(uuid.UUID(str(task))): str(uuid.UUID(str(context))) for task, context in tasks}
        said_in = {context_of.get(one.task) for one in self.seen.acknowledged}
        for follower in followers:
            needed = {
                key: last
                for key, (last, owner) in newest.items()
                if owner == follower.tenant.user and (key in said_in or key in follower.heard.logs)
            }
            reached, changed_at = -1, machine.now()
            while machine.now() - changed_at < CATCH_UP_SECONDS:
                places = {key: follower.reached(key) for key in needed}
                if all(places[key] >= last for key, last in needed.items()):
                    break
                if (so_far := sum(places.values())) != reached:  # what it hears again is no progress
                    reached, changed_at = so_far, machine.now()
                time.sleep(0.5)
        for follower in followers:
            follower.stop()
        for follower in followers:
            follower.join(machine.seconds(60))

    # Judging

    def _judge(self, tenants: list[Tenant], load: Load, settled: float) -> None:
        record = history.read_record(self.stage.query())
        record.replay = self.stage.replay()
        self._read_again(tenants, record)
        self.outcome.found = judge.judge(self.seen, record)
        self.outcome.found["clients_understand_the_answers"] = load.failures
        self.outcome.figures = self._figures(record, settled)

    def _read_again(self, tenants: list[Tenant], record: Record) -> None:
        by_name = {tenant.name: tenant for tenant in tenants}
        clients = {
            name: Client(tenant, self.stage.urls, self.seen, random.Random(1)) for name, tenant in by_name.items()
        }
        for tenant, key in sorted({(one.tenant, one.task) for one in self.seen.acknowledged if one.task}):
            task = record.tasks.get(key)
            if task is not None and task.state in TERMINAL:
                found = clients[tenant].rpc(task.agent, "GetTask", {"id": key})
                if "error" not in found:
                    self.seen.later.append(answered(tenant, found))

    def _figures(self, record: Record, settled: float) -> dict[str, Any]:
        found = self.outcome.found
        states = [task.state for task in record.tasks.values()]
        return {
            "profile": "embedded" if self.options.embedded else "services",
            "seed": self.options.seed,
            "minutes": self.options.minutes,
            "faults": sum(self.outcome.faults.values()),
            "kills": self.stage.kills,
            "tasks": len(states),
            "completed": states.count("completed"),
            "failed": states.count("failed"),
            "canceled": states.count("canceled"),
            "events": len(record.events),
            "messages acknowledged": len(self.seen.acknowledged),
            "lost": sum("is lost" in line for line in found["each_acknowledged_message_is_in_one_task"]),
            "second terminals": len(found["each_task_ends_once"]),
            "gaps": len(found["indexes_have_no_gaps"]),
            "foreign answers": len(found["nobody_sees_what_is_anothers"]),
            "slowest machine": f"{machine.most:.1f} times",
            "seconds until all ended": round(max(0.0, settled), 1),
            "events heard by followers": sum(len(one.text) for one in self.seen.followed),
            "connections of followers": sum(one.connections for one in self.seen.followed),
            **dict(sorted(self.seen.counts.items())),
        }

    def _compare(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Memory and open files before the faults, and after them without load."""
        for name, (pid, memory, files) in sorted(after.items()):
            pid_before, memory_before, files_before = before[name]
            was = f"{memory_before / 1024:.0f} MB, {files_before}{'' if pid == pid_before else ' of another process'}"
            self.outcome.figures[f"memory and files of {name}"] = f"{memory / 1024:.0f} MB, {files} (were {was})"
        (memory_before, files_before), (memory, files) = _sums(before), _sums(after)
        grown = (
            f"{memory / 1024:.0f} MB and {files} open files, which were {memory_before / 1024:.0f} and {files_before}"
        )
        is_much = memory > memory_before * MORE or files > files_before * MORE
        self.outcome.found["memory_and_files_come_back"] = [grown] if is_much else []

    def _keep_logs(self) -> None:
        folder = REPORTS / f"logs-{self.options.seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in self.stage.stack.data_dir.glob("*.log"):
            shutil.copy(path, folder)


def _sums(measures: dict[str, tuple[int, int, int]]) -> tuple[int, int]:
    """Of all processes: pools keep some connections open, now in one and then in another."""
    return sum(one[1] for one in measures.values()), sum(one[2] for one in measures.values())


def report(options: Options, outcome: Outcome) -> None:
    width = max(map(len, [*outcome.figures, *outcome.found]))
    print()
    for name, value in outcome.figures.items():
        print(f"{name:<{width}}  {value}")
    print()
    for rule, wrong in outcome.found.items():
        print(f"{rule:<{width}}  {'holds' if not wrong else f'broken {len(wrong)} times'}")
        for line in wrong[: judge.SHOWN]:
            print(f"    {line}")
    print()
    print("injected:", ", ".join(f"{name} {count}" for name, count in sorted(outcome.faults.items())) or "nothing")
    for name, why in outcome.skipped.items():
        print(f"not tried: {name}: {why}")
    REPORTS.mkdir(parents=True, exist_ok=True)
    file = REPORTS / f"{'embedded' if options.embedded else 'services'}-{options.seed}.json"
    file.write_text(json.dumps({"command": options.command, **vars(outcome)}, indent=2) + "\n")
    print(f"written to {file}")
    if not outcome.is_good:
        print(f'\nSomething was lost or wrong. The same again: make faults FAULTS="{options.command}"')


def parsed(arguments: list[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m faults", description="Breaks a running Parley and judges.")
    parser.add_argument("--seed", type=int, default=0, help="of the load and the faults; by default a new one")
    parser.add_argument("--minutes", type=float, default=5.0, help="of faults")
    parser.add_argument("--only", default="", help=f"faults, separated by commas: {', '.join(FAULTS)}")
    parser.add_argument("--embedded", action="store_true", help="one process on SQLite")
    parser.add_argument("--clients", type=int, default=2, help="of each of the two tenants")
    defects = ", ".join(DEFECTS)
    parser.add_argument("--planted", default="", help=f"a defect, by default under faults that show it: {defects}")
    given = parser.parse_args(arguments)
    if given.planted and given.planted not in DEFECTS:
        parser.error(f"there is no defect {given.planted}; there are {defects}")
    only = [name for name in (given.only or DEFECTS.get(given.planted, ("", ""))[1]).split(",") if name]
    if unknown := [name for name in only if name not in FAULTS]:
        parser.error(f"there is no fault {unknown[0]}; there are {', '.join(FAULTS)}")
    seed = given.seed or secrets.randbelow(10**6) + 1
    return Options(seed, given.minutes, only, given.embedded, given.clients, given.planted)


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # also then nothing is left behind
    print(f"seed {options.seed}", flush=True)
    machine.start()
    planted = {"FAULTS_PLANTED": options.planted} if options.planted else {}
    stage = Embedded(**planted) if options.embedded else Services(**planted)
    outcome = Trial(options, stage).run()
    report(options, outcome)
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
