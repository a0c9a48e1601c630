"""The processes in which templates are worked out: a few, started when needed, and again when one has ended."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from parley.templating.budgets import READ_SECONDS, SECONDS

MOST_PROCESSES = 2  # at the same time, for each process of Parley
BOOT = "import sys; sys.path[:] = sys.argv[1:]; from parley.templating.child import main; main()"
CHUNK = 256 * 1024  # bytes
ENDED = f"It takes too long, or too much memory: templates have {READ_SECONDS:g} s to be read and {SECONDS:g} s to run."

type Message = dict[str, Any]
type Conversation[T] = Generator[Message, Message, T]
"""Yields what is sent to a process, gets its answers, and returns the result."""


class _Process:
    """One process, and the socket that it reads and writes. Used by one caller at a time."""

    def __init__(self) -> None:
        self._running: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    @property
    def is_running(self) -> bool:
        return self._running is not None and self._running.poll() is None

    @property
    def pid(self) -> int:
        """0 if it does not run."""
        return self._running.pid if self._running is not None else 0

    def start(self) -> None:
        """Raises OSError."""
        self.end()
        self._socket, theirs = socket.socketpair()
        paths = [path or os.getcwd() for path in sys.path]
        with theirs:
            # Without the environment, which has secrets; in a group of its own, which no Ctrl-C reaches.
            self._running = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-c", BOOT, *paths],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                env={},
                process_group=0,
            )

    def end(self) -> int:
        """Returns its status; 0 if it did not run."""
        running, self._running = self._running, None
        if self._socket is not None:
            self._socket.close()
        if running is None:
            return 0
        if running.poll() is None:
            running.kill()
        return running.wait()

    def forget(self) -> None:
        """In a process that was forked: it belongs to the parent."""
        if self._socket is not None:
            self._socket.close()
        if self._running is not None:
            self._running.returncode = 0

    def exchange(self, message: Message) -> Message:
        """Raises OSError."""
        pieces: list[bytes] = []
        try:
            self._connection.setblocking(True)
            self._connection.sendall(_line(message))
            while not pieces or not pieces[-1].endswith(b"\n"):
                pieces.append(self._connection.recv(CHUNK) or self._raise_eof())
        except (ConnectionError, EOFError):
            return self._last_words()
        return _message(pieces)

    async def exchange_async(self, message: Message) -> Message:
        """Raises OSError."""
        loop, pieces = asyncio.get_running_loop(), list[bytes]()
        try:
            self._connection.setblocking(False)
            await loop.sock_sendall(self._connection, _line(message))
            while not pieces or not pieces[-1].endswith(b"\n"):
                pieces.append(await loop.sock_recv(self._connection, CHUNK) or self._raise_eof())
        except (ConnectionError, EOFError):
            return self._last_words()
        return _message(pieces)

    @property
    def _connection(self) -> socket.socket:
        assert self._socket is not None  # it was started
        return self._socket

    def _raise_eof(self) -> bytes:
        raise EOFError

    def _last_words(self) -> Message:
        """What a process that a signal ended would say: the kernel ends those that take too much."""
        running = self._running
        status = running.wait() if running is not None else 0
        self.end()
        if status >= 0:
            raise OSError(f"The process for templates ended with status {status}.")
        return {"problems": [(0, ENDED)], "budget": (0.0, 0.0)}


def _line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _message(pieces: list[bytes]) -> Message:
    read: Message = json.loads(b"".join(pieces))
    return read


class Processes:
    """Lends its processes to callers, in the order in which they came."""

    def __init__(self, most: int = MOST_PROCESSES) -> None:
        self._most = most
        self._set_up()
        atexit.register(self.end)
        os.register_at_fork(after_in_child=self._forget)

    def _set_up(self) -> None:
        self._lock = threading.Lock()
        self._all = [_Process() for _ in range(self._most)]
        self._idle = list(self._all)
        self._waiting: deque[Future[_Process]] = deque()

    def _forget(self) -> None:
        for process in self._all:
            process.forget()
        self._set_up()

    def end(self) -> None:
        """End the processes. They start again when they are needed."""
        for process in self._all:
            process.end()

    def pids(self) -> list[int]:
        """Of those that run."""
        return [process.pid for process in self._all if process.is_running]

    def talk[T](self, conversation: Conversation[T]) -> T:
        """Hold the conversation with a process; waits in this thread. Raises OSError, and what it raises."""
        process = self._take().result()
        is_done = False
        try:
            if not process.is_running:
                process.start()
            message = next(conversation)
            while True:
                answer = process.exchange(message)
                is_done = "number" not in answer and not answer.get("ends")
                message = conversation.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            self._give_back(process, is_done)

    async def talk_async[T](self, conversation: Conversation[T]) -> T:
        """Like `talk`, and waits without a thread."""
        process, is_done = await self._taken(), False
        try:
            if not process.is_running:
                starting = asyncio.ensure_future(asyncio.to_thread(process.start))
                try:
                    await asyncio.shield(starting)
                except asyncio.CancelledError:
                    await asyncio.wait([starting])  # nobody may end it meanwhile
                    raise
            message = next(conversation)
            while True:
                answer = await process.exchange_async(message)
                is_done = "number" not in answer and not answer.get("ends")
                message = conversation.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            self._give_back(process, is_done)

    async def _taken(self) -> _Process:
        taken = self._take()
        try:
            return await asyncio.wrap_future(taken)
        except asyncio.CancelledError:
            if not taken.cancel():  # it came meanwhile
                self._give_back(taken.result(), True)
            raise

    def _take(self) -> Future[_Process]:
        taken: Future[_Process] = Future()
        with self._lock:
            if self._idle:
                taken.set_result(self._idle.pop())  # one that ran last
            else:
                self._waiting.append(taken)
        return taken

    def _give_back(self, process: _Process, is_done: bool) -> None:
        """`is_done`: it waits for the next request. One that was left in a conversation is ended."""
        if not is_done:
            process.end()
        with self._lock:
            while self._waiting:
                waiting = self._waiting.popleft()
                if waiting.set_running_or_notify_cancel():
                    waiting.set_result(process)
                    return
            self._idle.append(process)


PROCESSES = Processes()
