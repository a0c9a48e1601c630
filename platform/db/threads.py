"""The bridge's threads. They do what an executor's would, with less between who asks and the thread that works.

An executor hands work over by way of futures, callbacks and locks that take longer than many a statement. Here the
thread that worked last is asked first: its connection, its plans and the processor's caches are warm.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

Job = Callable[[], None]
Inbox = SimpleQueue[Job | None]


class Threads:
    """At most `most` threads, each started when all others are busy. What is left over waits in its order.

    A job must not raise. `leave` is called in each thread when it ends, and when it has had nothing to do for
    `patience` seconds: what it keeps at hand for its work is then better free for others.
    """

    def __init__(self, most: int, leave: Job, patience: float = 30.0) -> None:
        self._most = most
        self._leave = leave
        self._patience = patience
        self._lock = threading.Lock()
        self._idle: list[Inbox] = []  # of the threads that wait, the one that worked last at the end
        self._left_over: deque[Job] = deque()
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def call(self, job: Job) -> None:
        """Have it called soon. Raises RuntimeError once they are closed."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("these threads take no more work")
            if not self._idle and len(self._threads) >= self._most:
                self._left_over.append(job)
                return
            inbox = self._idle.pop() if self._idle else self._start()
        inbox.put(job)

    def close(self) -> None:
        """Take no more work, and wait until what is there is done and the threads have ended."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)
        for thread in self._threads:
            thread.join()

    def _start(self) -> Inbox:
        inbox: Inbox = SimpleQueue()
        name = f"bridge-{len(self._threads)}"
        thread = threading.Thread(target=self._work, args=[inbox], name=name, daemon=True)
        thread.start()
        self._threads.append(thread)
        return inbox

    def _work(self, inbox: Inbox) -> None:
        while (job := self._given(inbox)) is not None:
            while job is not None:
                job()
                job = self._next(inbox)
        self._leave()

    def _given(self, inbox: Inbox) -> Job | None:
        try:
            return inbox.get(timeout=self._patience)
        except Empty:
            self._leave()
            return inbox.get()

    def _next(self, inbox: Inbox) -> Job | None:
        """What was left over; where that is nothing the thread is idle, or is told to end."""
        with self._lock:
            if self._left_over:
                return self._left_over.popleft()
            if self._is_closed:
                inbox.put(None)
            else:
                self._idle.append(inbox)
            return None
