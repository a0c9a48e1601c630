"""Executes runs in a worker process: one event loop, limited runs, one thread that extends leases.

Each write of a run also extends its lease (`ledger.writing`).
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from celery import bootsteps
from django.conf import settings
from django.db.models import F
from kombu import Consumer
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind
from structlog.contextvars import bind_contextvars

from apps.engine.claim import RunsAlone, claim, is_repeatable
from apps.engine.fairness import Turns, has_limit
from apps.engine.finish import WORKER_LOST, fail_lost_turn
from apps.engine.queue import publish, run_queue
from apps.engine.turns import handlers
from apps.engine.turns.assignment import Assignment, current_assignment
from apps.engine.turns.handlers import Blocked, LoopWatchdog, TurnOutput, turn_output
from apps.engine.turns.isolation import ChildProcesses
from apps.engine.turns.turn import execute_turn
from apps.limits import current as limits
from apps.limits.models import Kind
from apps.record import ledger
from apps.record.execution import Run
from apps.record.models import TaskState
from apps.record.reading import notifications
from apps.record.runs import Lease, LeaseLost
from parley import db
from parley.db import sql
from parley.db.threads import Singleton
from parley.telemetry import logs, metrics, tracing

log = logging.getLogger("parley.engine")

MAX_REMEMBERED_STOPS = 1000
FULL_WAIT_SECONDS = 1.0
Take = Callable[[Any, str], Assignment | None]
"""Claims the run with this key, or None: any, for a worker of this name."""


@dataclass(slots=True)
class ActiveRun:
    assignment: Assignment
    work: asyncio.Task[None]
    interrupted: bool = False


class Load(NamedTuple):
    """The runs of a process: `busy` ones take a slot of `capacity`, `waiting` ones have released theirs for a while."""

    busy: int
    waiting: int
    capacity: int


class WorkerProcess:
    """Claims runs, executes them on one event loop, extends their leases, and stops them."""

    def __init__(self, slots: RunSlots | None = None, *, on_dead: Callable[[], object] | None = None) -> None:
        """`on_dead`: called when the event loop is dead; by default the process starts again."""
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self._claim_numbers = itertools.count(1)
        self._slots = slots or RunSlots(settings.RUNS_PER_PROCESS)
        self._children = ChildProcesses()
        self._on_dead = on_dead
        self._turns = Turns()
        self._claiming: set[Future[bool]] = set()
        self._active: dict[str, ActiveRun] = {}
        self._stops: dict[str, None] = {}  # runs to stop that have not begun here, oldest first
        self._closing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="runs", daemon=True)
        self._thread.start()
        self._watchdog = LoopWatchdog(self._loop, self._thread, self._replace)
        self._ended = threading.Event()
        threading.Thread(target=self._keep_leases, name="leases", daemon=True).start()
        handlers.capture_stdout()
        self._stop_listening = notifications.on_stop(self._stop_soon)

    @property
    def load(self) -> Load:
        busy = max(0, self._slots.taken)
        return Load(busy, max(0, len(self._active) - busy), self._slots.count)

    def _run(self) -> None:
        while True:
            try:
                self._loop.run_forever()
                return
            except Blocked:
                continue
            except BaseException as error:  # of an agent's callback; the loop goes on
                log.error("an agent's code raised %s on the event loop", logs.describe(error, texts="none"))

    def _replace(self) -> None:
        """The event loop is dead. A process that is told to end is not begun again."""
        if self._on_dead is not None:
            self._on_dead()
        elif not self._closing:
            restart_process()

    def on_loop(self, call: Callable[[], object]) -> None:
        """Call it soon from the event loop; never, if that is dead."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def claim_and_wait(self, run_id: uuid.UUID) -> bool:
        """Claim this run and begin it. Returns False if this process is full or closing; then ask another."""
        return self.claim_soon(run_id, claim).result()

    def execute_alone(self, run_id: uuid.UUID, worker: str) -> Future[None]:
        """Claim the run that is reserved under this name, and nothing after it. Done when the run has ended here."""
        self._closing = True
        self._slots.take()
        assignment = db.submit_unnamed(claim, run_id, worker, alone=True).result()
        return asyncio.run_coroutine_threadsafe(self._carry(assignment), self._loop)

    async def _carry(self, assignment: Assignment | None) -> None:
        if assignment is not None:
            self._begin(assignment)
            await asyncio.wait([self._active[str(assignment.lease.run_id)].work])

    def claim_soon(self, run_id: uuid.UUID, take: Take | None = None) -> Future[bool]:
        """Claim this run, by default or the one whose turn it is, without blocking the thread.

        Returns as `claim_and_wait`.
        """
        take = take or self._turns.claim
        if self._watchdog.is_stuck:
            return _delayed_refusal()
        if self._slots.take():
            return self._claim_in_slot(run_id, take)
        return asyncio.run_coroutine_threadsafe(self._claim_when_free(run_id, take), self._loop)

    async def _claim_when_free(self, run_id: uuid.UUID, take: Take) -> bool:
        if not await self._slots.take_within(FULL_WAIT_SECONDS):
            return False
        return await asyncio.wrap_future(self._claim_in_slot(run_id, take))

    def _claim_in_slot(self, run_id: uuid.UUID | None, take: Take) -> Future[bool]:
        """Claim a run under a name for this one claim. The slot is taken already."""
        name = f"{self.name}:{next(self._claim_numbers)}"
        claiming = db.submit_unnamed(self._claim_and_begin, run_id, take, name)
        self._claiming.add(claiming)
        claiming.add_done_callback(self._claiming.discard)
        return claiming

    def _claim_and_begin(self, run_id: uuid.UUID | None, take: Take, name: str) -> bool:
        assignment = None
        try:
            if not self._closing:
                assignment = take(run_id, name)
        except RunsAlone as reserved:
            self._children.begin(reserved.run_id, reserved.worker)
        finally:
            with suppress(RuntimeError):
                if assignment is not None:
                    self._loop.call_soon_threadsafe(self._begin, assignment)
                else:
                    self._loop.call_soon_threadsafe(self._slots.give)
        return not self._closing

    def close(self, grace: float) -> None:
        """Take no more runs, let active ones end within `grace` seconds, and release the others."""
        deadline = time.monotonic() + grace
        self._closing = True
        self._children.stop()
        self._stop_listening()
        wait(self._claiming, grace)
        is_stuck, left = self._watchdog.is_stuck, max(0.0, deadline - time.monotonic())
        if not is_stuck:
            try:
                asyncio.run_coroutine_threadsafe(self._drain(left), self._loop).result(left + 30)
            except TimeoutError:
                is_stuck = True
        if is_stuck:  # nothing runs there any more
            db.submit(release_runs, [active.assignment for active in list(self._active.values())]).result()
        self._children.close(max(0.0, deadline - time.monotonic()))
        self._ended.set()
        self._watchdog.close()
        handlers.restore_stdout()
        if not is_stuck:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _begin(self, assignment: Assignment) -> None:
        key = str(assignment.lease.run_id)
        if (lost := self._active.get(key)) is not None:
            lost.work.cancel()  # its lease expired, and this process claimed it again
        self._active[key] = ActiveRun(assignment, self._loop.create_task(self._execute(assignment, key)))
        if key in self._stops:
            del self._stops[key]
            self._stop(key)

    async def _execute(self, assignment: Assignment, key: str) -> None:
        task, agent = str(assignment.task.pk), assignment.agent.slug
        bind_contextvars(run=key, task=task, agent=agent, trace_id=assignment.span[3:35])
        current_assignment.set(assignment)
        db.caller.set(f"runs of {assignment.task.owner_id}")
        printed = TurnOutput(assignment.redaction)
        turn_output.set(printed)
        metrics.ACTIVE_RUNS.inc()
        active = self._active[key]
        try:
            with _traced(assignment) if tracing.is_on else nullcontext(INVALID_SPAN):
                await execute_turn(assignment, lambda: active.interrupted, self._slots.released_for_a_while)
        except asyncio.CancelledError:
            pass
        except BaseException:  # whatever it is, the loop goes on
            log.exception("run %s could not be recorded; it is taken up again when its lease ends", key)
        finally:
            if printed.line or printed.lines:
                printed.close()
            if self._active.get(key) is active:
                del self._active[key]
            metrics.ACTIVE_RUNS.dec()
            if not self._closing and Kind.RUNNING in limits.snapshot().names and has_limit(assignment.lane):
                self._claim_in_slot(None, self._turns.claim)  # what waited for this run to end has no message any more
            else:
                self._slots.give()

    def _stop_soon(self, run_id: str) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop, run_id)

    def _stop(self, key: str) -> None:
        """Check now whether the run must stop, or when it begins here."""
        if key in self._active:
            self._loop.create_task(self._check(key))
            return
        self._stops[key] = None
        if len(self._stops) > MAX_REMEMBERED_STOPS:
            del self._stops[next(iter(self._stops))]

    def _keep_leases(self) -> None:
        """Extend all leases at intervals; stop lost or interrupted runs.

        Its own thread keeps leases while a handler blocks the loop. If the loop stays stuck, leases expire and other
        processes take the runs.
        """
        db.caller.set("leases")
        while not self._ended.wait(settings.RUN_LEASE_SECONDS / 6):
            leases = [active.assignment.lease for active in list(self._active.values())]
            if not leases or self._watchdog.is_stuck:
                continue
            try:
                states = db.submit(check_leases, leases, extend=True).result()
                self._loop.call_soon_threadsafe(self._stop_lost, leases, states)
            except Exception:
                log.warning("leases could not be extended; trying again", exc_info=True)

    async def _check(self, key: str) -> None:
        if (active := self._active.get(key)) is not None:
            leases = [active.assignment.lease]
            self._stop_lost(leases, await db.run(check_leases, leases, extend=False))

    def _stop_lost(self, leases: Sequence[Lease], states: dict[Lease, Wish]) -> None:
        for lease in leases:
            active = self._active.get(str(lease.run_id))
            if active is None or active.assignment.lease != lease:
                continue
            wish = states.get(lease)
            if wish is None or wish.interrupted:
                active.interrupted = wish is not None
                active.work.cancel()
            elif wish.stops_after_step:
                active.assignment.stop_after_step.set()

    async def _drain(self, grace: float) -> None:
        works = {active.work for active in self._active.values()}
        if works:
            await asyncio.wait(works, timeout=grace)
        left = list(self._active.values())
        for active in left:
            active.work.cancel()
        if left:
            await asyncio.wait({active.work for active in left}, timeout=10)
            await db.run(release_runs, [active.assignment for active in left])
        await self._cancel_the_rest()

    async def _cancel_the_rest(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=1)
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.get_running_loop().shutdown_asyncgens()


def _traced(assignment: Assignment) -> AbstractContextManager[Span]:
    """The span of an attempt, by OpenTelemetry's conventions for generative AI, with Parley's own attributes."""
    agent = assignment.agent
    known: dict[str, str] = {
        "gen_ai.agent.id": str(agent.pk),
        tracing.AGENT: agent.slug,
        "gen_ai.agent.version": agent.version,
        "gen_ai.conversation.id": assignment.task.context.context_id,
    }
    tracing.agent.set(known)
    attributes: dict[str, str | int] = {
        tracing.OPERATION: tracing.INVOKE_AGENT,
        **known,
        "parley.task": str(assignment.task.pk),
        "parley.run": str(assignment.lease.run_id),
        "parley.turn": assignment.turn,
        "parley.attempt": assignment.attempt,
    }
    name = f"{tracing.INVOKE_AGENT} {agent.slug}"
    return tracing.span(name, kind=SpanKind.CONSUMER, parent=assignment.span, attributes=attributes)


def _delayed_refusal() -> Future[bool]:
    """Refuse after a while, because the broker redelivers a rejected message at once."""
    refused: Future[bool] = Future()
    waiting = threading.Timer(FULL_WAIT_SECONDS, refused.set_result, [False])
    waiting.daemon = True
    waiting.start()
    return refused


class RunSlots:
    """A semaphore for runs. Any thread takes a slot; the event loop also waits for slots and returns them.

    `threading.Semaphore` does not fit, because `released_for_a_while` may overdraw.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._lock = threading.Lock()
        self._freed = asyncio.Event()

    @property
    def taken(self) -> int:
        return self.count - self._free

    def take(self) -> bool:
        with self._lock:
            if self._free <= 0:
                return False
            self._free -= 1
            return True

    async def take_within(self, seconds: float) -> bool:
        """Take a slot as soon as one is free; False if none is within these seconds."""
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
    def released_for_a_while(self) -> Generator[None]:
        """Return a slot and take it back without waiting, even if none is free."""
        self.give()
        try:
            yield
        finally:
            with self._lock:
                self._free -= 1


class Wish(NamedTuple):
    """What others want of a run: that it ends now for a newer message, or after its step."""

    interrupted: bool
    stops_after_step: bool


def check_leases(leases: Iterable[Lease], *, extend: bool) -> dict[Lease, Wish]:
    """The leases still held, each with what others want of its run. `extend` renews them."""
    wanted = {lease.run_id: lease for lease in leases}
    now = sql.database_time()
    running = Run.objects.filter(pk__in=wanted, state=Run.State.RUNNING, lease_until__gt=now)
    found = {
        Lease(key, fence, worker): Wish(*wish)
        for key, fence, worker, *wish in running.values_list("pk", "fence", "worker", *Wish._fields)
    }
    held = [lease.run_id for lease in found if wanted[lease.run_id] == lease]
    if extend and held:
        running.filter(pk__in=held).update(lease_until=now + datetime.timedelta(seconds=settings.RUN_LEASE_SECONDS))
    return found


def release_runs(assignments: Iterable[Assignment]) -> None:
    """Queue these runs for other workers. Turns that must not be repeated fail with a reason."""
    for assignment in assignments:
        lease = assignment.lease
        held = Run.objects.filter(**lease.is_held, state=Run.State.RUNNING)
        if not is_repeatable(assignment.agent):
            _fail_unrepeatable(assignment)
        elif held.update(state=Run.State.QUEUED, attempt=F("attempt") - 1, lease_until=None):
            publish(lease.run_id)


def _fail_unrepeatable(assignment: Assignment) -> None:
    reason = "The server was restarted, and this agent does not retry automatically. Send the message again."
    try:
        with ledger.writing(assignment.context_id, lease=assignment.lease) as log:
            run = Run.objects.select_related("task", "message", "agent").get(pk=assignment.lease.run_id)
            following = fail_lost_turn(log, run, assignment.lease, reason)
    except LeaseLost:
        return
    metrics.RUNS_ENDED[assignment.agent.slug, TaskState.FAILED.value, WORKER_LOST].inc()
    if following is not None:
        publish(following)


_worker = Singleton(WorkerProcess)
PREFETCH = 32


class RunConsumer(bootsteps.ConsumerStep):  # type: ignore[misc]
    """Consumes run messages in each worker, beside Celery's own consumer.

    It acknowledges a message when the run is claimed or gone; a full process returns it to the queue. Both happen in
    Celery's consumer thread, because only that may use the broker's connection.
    https://docs.celeryq.dev/en/stable/userguide/extending.html#custom-message-consumers
    """

    def start(self, c: Any) -> None:
        self._consumer = c
        super().start(c)

    def get_consumers(self, channel: Any) -> list[Consumer]:
        consumer = Consumer(
            channel,
            [run_queue()],
            callbacks=[self.claim],
            on_decode_error=lambda message, _: message.reject(),
            accept=["json"],
            prefetch_count=PREFETCH,
        )
        return [consumer]

    def claim(self, body: Any, message: Any) -> None:
        """Claim the run without waiting, then acknowledge or reject its message."""
        try:
            run_id = uuid.UUID(body["run"])
        except (KeyError, TypeError, ValueError, AttributeError):
            log.warning("a message that names no run is dropped")
            message.reject()
            return

        def settle(claiming: Future[bool]) -> None:
            if claiming.cancelled():
                return
            if error := claiming.exception():
                log.error("a run could not be claimed; it waits for the sweep", exc_info=error)
            errors, call_soon_ack = self._consumer.connection_errors, self._consumer.call_soon_ack
            if error or claiming.result():
                call_soon_ack(message.ack_log_error, log, errors)
            else:
                call_soon_ack(message.reject_log_error, log, errors, True)

        (_worker.made or _worker.get()).claim_soon(run_id).add_done_callback(settle)


def current_worker() -> WorkerProcess:
    return _worker.get()


def current_load() -> Load:
    """What this process carries. It does not start the event loop of a process that has had no run."""
    worker = _worker.made
    return worker.load if worker is not None else Load(0, 0, settings.RUNS_PER_PROCESS)


def call_on_loop(call: Callable[[], object]) -> None:
    """Call it from the event loop of this process's runs, which shows that it lives; at once, if there was no run."""
    worker = _worker.made
    if worker is None:
        call()
    else:
        worker.on_loop(call)


def restart_process() -> None:
    """Begin this program again in the same process: its event loop is dead. All work is in the database."""
    log.critical("the event loop of runs does not answer any more; this process starts again")
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606


def close_current_worker(grace: float) -> None:
    if (closing := _worker.take()) is not None:
        closing.close(grace)
