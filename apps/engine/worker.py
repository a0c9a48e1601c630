"""The part of a worker process that carries runs: one event loop, a bounded number of runs, one heartbeat for all."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from django.conf import settings
from django.db.models import F
from structlog.contextvars import bind_contextvars

import db
from apps.agents.models import Agent
from apps.engine import handlers
from apps.engine.assignment import Assignment
from apps.engine.claim import claim
from apps.engine.finish import fail_lost_turn
from apps.engine.handlers import Blocked, LoopWatchdog
from apps.engine.queue import publish
from apps.engine.turn import execute_turn
from apps.record import ledger, notifications, runs
from apps.record.models import Run
from apps.record.runs import Lease, LeaseLost
from db import sql
from db.threads import Singleton

log = logging.getLogger("parley.engine")

MAX_REMEMBERED_STOPS = 1000  # stops that are remembered for runs that this process has not begun
FULL_WAIT_SECONDS = 1.0  # how long a full process keeps a wake-up before it gives it back to the queue


@dataclass(slots=True)
class ActiveRun:
    """A run on this process's loop."""

    assignment: Assignment
    work: asyncio.Task[None]
    interrupted: bool = False


class WorkerProcess:
    """Claims runs, executes them on one event loop, keeps their leases, and stops them when told."""

    def __init__(self) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self._numbers = itertools.count(1)  # of its claims
        self._slots = RunSlots(settings.RUNS_PER_PROCESS)
        self._claiming: set[Future[bool]] = set()
        self._active: dict[str, ActiveRun] = {}
        self._stops: dict[str, None] = {}  # runs that were told to stop while they were not carried, the oldest first
        self._closing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="runs", daemon=True)
        self._thread.start()
        self._watchdog = LoopWatchdog(self._loop, self._thread)
        self._ended = threading.Event()
        threading.Thread(target=self._keep_leases, name="leases", daemon=True).start()
        handlers.capture_stdout()
        self._stop_listening = notifications.on_stop(self._told_to_stop)

    def _run(self) -> None:
        while True:
            try:
                self._loop.run_forever()
                return
            except Blocked:  # a handler ended by itself just when it was to be ended
                continue

    def claim_and_wait(self, run_id: uuid.UUID) -> bool:
        """Claim a run and begin it; False where this process is full or ends, so that another should be asked."""
        return self.claim_soon(run_id).result()

    def claim_soon(self, run_id: uuid.UUID) -> Future[bool]:
        """The same for a thread that is not to be held up."""
        if self._watchdog.is_stuck:
            return _delayed_refusal()
        if self._slots.take():
            return self._take_up(run_id)
        return asyncio.run_coroutine_threadsafe(self._take_up_when_free(run_id), self._loop)

    async def _take_up_when_free(self, run_id: uuid.UUID) -> bool:
        if not await self._slots.take_within(FULL_WAIT_SECONDS):
            return False
        return await asyncio.wrap_future(self._take_up(run_id))

    def _take_up(self, run_id: uuid.UUID) -> Future[bool]:
        """Claim the run, for which there is room, under a name for this claim alone, and begin it if it may be had."""
        claiming = db.submit(self._take, run_id, f"{self.name}:{next(self._numbers)}")
        self._claiming.add(claiming)
        claiming.add_done_callback(self._claiming.discard)
        return claiming

    def _take(self, run_id: uuid.UUID, name: str) -> bool:
        assignment = None
        try:
            if not self._closing:
                assignment = claim(run_id, name)
        finally:
            with suppress(RuntimeError):  # the loop has ended
                if assignment is not None:
                    self._loop.call_soon_threadsafe(self._begin, assignment)
                else:
                    self._loop.call_soon_threadsafe(self._slots.give)
        return not self._closing

    def close(self, grace: float) -> None:
        """Take no more runs, let those that are carried end within `grace` seconds, and give back the others."""
        self._closing = True
        self._stop_listening()
        wait(self._claiming, grace)
        asyncio.run_coroutine_threadsafe(self._drain(grace), self._loop).result(grace + 30)
        self._ended.set()
        self._watchdog.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        handlers.restore_stdout()

    def _begin(self, assignment: Assignment) -> None:
        key = str(assignment.lease.run_id)
        if (lost := self._active.get(key)) is not None:
            lost.work.cancel()  # its lease ran out before anybody noticed, and this process took the run up again
        carried = ActiveRun(assignment, self._loop.create_task(self._carry(assignment, key)))
        self._active[key] = carried
        if key in self._stops:
            del self._stops[key]
            self._stop(key)

    async def _carry(self, assignment: Assignment, key: str) -> None:
        bind_contextvars(run=key, task=str(assignment.task.pk), agent=assignment.agent.slug)  # for the log's lines
        carried = self._active[key]
        try:
            with handlers.turn_stdout(assignment.redaction):
                await execute_turn(assignment, lambda: carried.interrupted, self._slots.released_for_a_while)
        except asyncio.CancelledError:
            pass  # stopped: whoever stopped it has recorded why
        except Exception:
            log.exception("run %s could not be recorded; it is taken up again when its lease ends", key)
        finally:
            if self._active.get(key) is carried:
                del self._active[key]
            self._slots.give()

    def _told_to_stop(self, run_id: str) -> None:
        """Called from any thread."""
        with suppress(RuntimeError):  # the loop may have ended meanwhile
            self._loop.call_soon_threadsafe(self._stop, run_id)

    def _stop(self, key: str) -> None:
        """Look at once whether the run is to stop; of one that is claimed and not begun, when it begins."""
        if key in self._active:
            self._loop.create_task(self._check(key))
            return
        self._stops[key] = None
        if len(self._stops) > MAX_REMEMBERED_STOPS:
            del self._stops[next(iter(self._stops))]

    def _keep_leases(self) -> None:
        """One query now and then extends all leases, one more finds the runs that are no longer this process's.

        In a thread of its own: a handler that blocks the loop does not cost the others their leases.
        """
        while not self._ended.wait(settings.RUN_LEASE_SECONDS / 6):
            leases = [carried.assignment.lease for carried in list(self._active.values())]
            if not leases or self._watchdog.is_stuck:
                continue
            try:
                states = db.submit(check_leases, leases, extend=True).result()
                self._loop.call_soon_threadsafe(self._stop_lost, leases, states)
            except Exception:
                log.warning("leases could not be extended; trying again", exc_info=True)

    async def _check(self, key: str) -> None:
        """Stop the run if it was lost or interrupted."""
        if (carried := self._active.get(key)) is not None:
            leases = [carried.assignment.lease]
            self._stop_lost(leases, await db.run(check_leases, leases, extend=False))

    def _stop_lost(self, leases: Sequence[Lease], states: dict[Lease, tuple[bool, bool]]) -> None:
        for lease in leases:
            carried = self._active.get(str(lease.run_id))
            if carried is None or carried.assignment.lease != lease:
                continue
            held, interrupted = states.get(lease, (False, False))
            if not held or interrupted:
                carried.interrupted = held and interrupted
                carried.work.cancel()

    async def _drain(self, grace: float) -> None:
        works = {carried.work for carried in self._active.values()}
        if works:
            await asyncio.wait(works, timeout=grace)
        left = list(self._active.values())
        for carried in left:
            carried.work.cancel()
        if left:
            await asyncio.wait({carried.work for carried in left}, timeout=10)
            await db.run(release_runs, [carried.assignment for carried in left])
        await self._cancel_the_rest()

    async def _cancel_the_rest(self) -> None:
        """End what is still on the loop: what stopped handlers left behind, and what lasts as long as the loop."""
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=1)
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.get_running_loop().shutdown_asyncgens()


def _delayed_refusal() -> Future[bool]:
    """Refuse after a while: a message that is given back at once would be delivered again at once."""
    refused: Future[bool] = Future()
    waiting = threading.Timer(FULL_WAIT_SECONDS, refused.set_result, [False])
    waiting.daemon = True
    waiting.start()
    return refused


class RunSlots:
    """A semaphore for runs: any thread takes one, the process's event loop waits for one and gives it back."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._freed = asyncio.Event()

    def take(self) -> bool:
        """Take one, if one is free."""
        with self._lock:
            if self._free <= 0:
                return False
            self._free -= 1
            return True

    async def take_within(self, seconds: float) -> bool:
        """Take one as soon as one is free, if that is soon enough."""
        try:
            async with asyncio.timeout(seconds):
                while not self.take():
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            return False
        return True

    def give(self) -> None:
        with self._lock:
            self._free += 1
        self._freed.set()

    @contextmanager
    def released_for_a_while(self) -> Iterator[None]:
        """Release a slot for a while. It is taken back without waiting, so that more than there are may be in use."""
        self.give()
        try:
            yield
        finally:
            with self._lock:
                self._free -= 1


def check_leases(leases: Iterable[Lease], *, extend: bool) -> dict[Lease, tuple[bool, bool]]:
    """For each run that is still held: is it, and was it interrupted? With `extend`, leases begin anew."""
    wanted = {lease.run_id: lease for lease in leases}
    now = sql.database_time()
    running = Run.objects.filter(pk__in=wanted, state=Run.State.RUNNING, lease_until__gt=now)
    rows = running.values_list("pk", "fence", "interrupted")
    found = {Lease(key, fence): (True, interrupted) for key, fence, interrupted in rows}
    held = [lease.run_id for lease in found if wanted[lease.run_id] == lease]
    if extend and held:
        running.filter(pk__in=held).update(lease_until=runs.lease_end(now))
    return found


def release_runs(assignments: Iterable[Assignment]) -> None:
    """Let others take these runs at once; the turn of an agent that must not repeat itself fails with a reason."""
    for assignment in assignments:
        lease = assignment.lease
        if not (assignment.agent.retry_safe or assignment.agent.kind == Agent.Kind.REMOTE):  # which works on elsewhere
            _fail_unrepeatable(assignment)
        elif (
            Run.objects.filter(pk=lease.run_id, fence=lease.fence, state=Run.State.RUNNING)
            .update(state=Run.State.QUEUED, attempt=F("attempt") - 1, lease_until=None)
        ):  # fmt: skip
            publish(lease.run_id)


def _fail_unrepeatable(assignment: Assignment) -> None:
    reason = "The platform was restarted, and this agent's work is not repeated by itself. Send the message again."
    try:
        with ledger.writing(assignment.context_id, lease=assignment.lease) as entry:
            run = Run.objects.select_related("task", "message", "agent").get(pk=assignment.lease.run_id)
            following = fail_lost_turn(entry, run, assignment.lease, reason)
    except LeaseLost:
        return
    if following is not None:
        publish(following)


_worker = Singleton(WorkerProcess)


def current_worker() -> WorkerProcess:
    """The one of this process, made when the first run comes."""
    return _worker.get()


def close_current_worker(grace: float) -> None:
    """End what this process carries (see `WorkerProcess.close`); a later run makes a new one."""
    if (closing := _worker.take()) is not None:
        closing.close(grace)
