"""A process of its own for a run that may end its process.

A run is *suspect* after its process died: its lease expired without being given back. Whoever claims it next executes
it alone in a child process, so that another death takes nobody with it and shows which run is to blame. The first death
costs no attempt. A run that killed the process it had alone fails. An agent whose runs did so PAUSE_AFTER times within
`claim.SUSPICION` is paused.

The child claims the run itself, with a lease and fence of its own. If the parent is killed, the child still ends its
run, or its lease expires: nobody is blamed, and the run is tried alone again while it has attempts.

Notifications of the embedded profile stay within a process, so the child tells the parent over a pipe what it recorded.
A stop reaches such a child with its next extension of the lease.
"""

from __future__ import annotations

import datetime
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TextIO

from django.conf import settings
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.agents.models import Agent
from apps.engine.activity import set_activity
from apps.engine.claim import START_SECONDS, SUSPICION, WORKER_KILLED, fail_killer
from apps.engine.queue import publish
from apps.installation.models import Activity
from apps.limits.notices import tell
from apps.record.execution import Run, failed_for
from apps.record.reading import notifications
from parley import db
from parley.db.sql import write_transaction

log = logging.getLogger("parley.engine")

AT_ONCE = 4  # children of a worker that compute; each takes about 100 MB
PAUSE_AFTER = 3
KILL_SECONDS = 10.0  # that a child has to end beyond the time for its run
WAITING, WORKING, ENDED = "waiting", "working", "ended"
"""What a child says when its run waits for others' work, when it goes on, and before it exits by itself. More than one
word are of a context that grew."""


class ChildProcesses:
    """The children of one worker process. Any thread may use it."""

    def __init__(self) -> None:
        self._queue: deque[tuple[uuid.UUID, str]] = deque()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._computing = 0
        self._closing = False
        self._lock = threading.Lock()

    def begin(self, run_id: uuid.UUID, worker: str) -> None:
        """Execute the run that is reserved under this name, as soon as few enough others compute."""
        with self._lock:
            self._queue.append((run_id, worker))
        self._count(0)
        if self._closing:
            self.stop()

    def stop(self) -> None:
        """Begin no more, release the runs that wait, and tell the children to release theirs."""
        with self._lock:
            self._closing, children = True, list(self._children.values())
            waiting, self._queue = self._queue, deque()
        for child in children:
            child.terminate()
        for run_id, worker in waiting:
            db.later(_release, run_id, worker)

    def close(self, grace: float) -> None:
        """After `stop`: let the children end within `grace` seconds, then end them."""
        with self._lock:
            children = list(self._children.values())
        deadline = time.monotonic() + grace + KILL_SECONDS
        for child in children:
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()

    def _count(self, change: int) -> None:
        """So many more or fewer compute; start what finds room."""
        with self._lock:
            self._computing += change
            while self._queue and self._computing < AT_ONCE and not self._closing:
                self._computing += 1
                threading.Thread(target=self._watch, args=self._queue.popleft(), name="child", daemon=True).start()

    def _watch(self, run_id: uuid.UUID, worker: str) -> None:
        try:
            if not db.submit(_reserve_longer, run_id, worker).result():
                return
            code = self._execute(run_id, worker)
            conclude = partial(_release, run_id, worker) if self._closing else partial(note_end, run_id, worker, code)
            db.submit(conclude).result()
        except Exception:
            log.exception("run %s could not be executed alone; the sweep tries it again", run_id)
        finally:
            self._count(-1)

    def _execute(self, run_id: uuid.UUID, worker: str) -> int | None:
        """With what the run's process ended; see `note_end`."""
        reading, writing = os.pipe()
        with os.fdopen(reading) as told:
            try:
                child = subprocess.Popen(  # noqa: S603 - our own program
                    [sys.executable, "-m", "django", "run_alone", str(run_id), worker, str(writing)],
                    env={
                        **os.environ,
                        "DJANGO_SETTINGS_MODULE": settings.SETTINGS_MODULE,
                        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    },
                    stdin=subprocess.DEVNULL,
                    pass_fds=[writing],
                    start_new_session=True,  # Ctrl-C is for the parent, which tells it
                )
            finally:
                os.close(writing)
            with self._lock:
                self._children[worker] = child
                if self._closing:
                    child.terminate()
            state = WORKING
            for line in told:
                match line.split():
                    case [word]:
                        self._count((state == WAITING) - (word == WAITING))
                        state = word
                    case [context, index, *owner]:
                        settles = not index.startswith(notifications.ON_ITS_WAY)
                        known = owner[0] if owner else ""
                        notifications.notify(notifications.REACHED, context, int(index), known, settles)
            self._count(state == WAITING)
        code = child.wait()
        with self._lock:
            del self._children[worker]
        return None if state == ENDED else code


class Told:
    """What a child tells its parent. Nobody need listen."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._pipe: TextIO = os.fdopen(descriptor, "w", buffering=1)
        self._descriptor = descriptor
        os.register_at_fork(after_in_child=self._close_in_fork)  # or the parent would not see the end
        self._lock = threading.Lock()
        if settings.EMBEDDED:
            notifications.on_reached(self._tell_reached)

    def say(self, *words: str) -> None:
        with self._lock, suppress(OSError):
            print(*words, file=self._pipe, flush=True)

    def _close_in_fork(self) -> None:
        """Once: in a fork of a fork the number may be another file's."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _tell_reached(self, context: str, index: int, owner: str, settles: bool) -> None:
        self.say(context, str(index) if settles else f"{notifications.ON_ITS_WAY}{index}", owner)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self.say(WAITING)
        try:
            yield
        finally:
            self.say(WORKING)


def _reserve_longer(run_id: uuid.UUID, worker: str) -> bool:
    """Keep a reserved run for a child that starts now. Returns False if somebody else took it."""
    until = db.sql.database_time() + datetime.timedelta(seconds=START_SECONDS)
    held = Run.objects.filter(pk=run_id, worker=worker, state=Run.State.QUEUED)
    return bool(held.update(lease_until=until))


def _release(run_id: uuid.UUID, worker: str) -> None:
    """Let others have a run that is still reserved."""
    held = Run.objects.filter(pk=run_id, worker=worker, state=Run.State.QUEUED, lease_until__isnull=False)
    if held.update(lease_until=None):
        publish(run_id)


def note_end(run_id: uuid.UUID, worker: str, code: int | None) -> None:
    """Draw the conclusions from the end of a run's process.

    It ran through: its agent is cleared. It was killed: the run fails, and the agent is paused if that happened often.
    It never claimed its run: that is queued again.

    `code`: None if the process ended by itself; otherwise its exit code, even 0, which for a signal is negative.
    """
    if code is not None:
        how = {int(one): one.name for one in signal.Signals}.get(-code, f"exit code {code}")
        agent = fail_killer(run_id, worker, how)
        if agent is not None:
            _note_kill(agent, how)
            return
        log.error("the process for run %s ended with %s", run_id, how)
    else:
        _clear(run_id, worker)
    Run.objects.filter(pk=run_id, worker=worker, state=Run.State.QUEUED).update(lease_until=None)


def _clear(run_id: uuid.UUID, worker: str) -> None:
    """If the run ran through, its agent runs beside others again, unless others of its runs killed their process."""
    done = Run.objects.filter(pk=run_id, worker=worker, state=Run.State.DONE)
    run = done.select_related("agent", "task__agent").first()
    if run is not None and (agent := run.agent or run.task.agent).alone_until and not kills()[agent.slug]:
        Agent.objects.filter(pk=agent.pk).update(alone_until=None)


def kills() -> Counter[str]:
    """How often runs killed the process that they had alone, within SUSPICION, by their agents' slugs."""
    failed = Run.objects.filter(failed_for(WORKER_KILLED), finished_at__gt=timezone.now() - SUSPICION)
    killers = failed.select_related("agent", "task__agent")
    return Counter((run.agent or run.task.agent).slug for run in killers)


def _note_kill(agent: Agent, how: str) -> None:
    log.error("agent %s ended the process that one of its runs had alone, with %s", agent.slug, how)
    count = kills()[agent.slug]
    what = f"it killed its worker {count} times within an hour"
    with write_transaction():
        is_paused = count >= PAUSE_AFTER and set_activity(agent, Activity.PAUSED)
        if is_paused:
            audit.record(AuditAction.AGENT_CHANGED, object=agent, details={"note": f"Paused: {what}."})
    if is_paused:
        tell(
            f"Agent {agent.slug} is paused: {what}",
            f"The process that only {agent.name} used ended with {how}. Fix its code, then resume it in admin."
            " Messages to it are kept meanwhile.",
        )
