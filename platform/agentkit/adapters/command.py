"""A program as an agent: the message comes at its standard input, and what it prints is the answer.

    agent(["./summarize.sh", "--short"])

Files of the message lie in the folder `$FILES`, and what the program writes to `$OUTPUT` is delivered. Lines at its
standard error are progress. An exit code other than 0 fails the task with the last of them.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Unpack

from agentkit.adapters import serving, words_of
from agentkit.content.messages import Artifact, File
from agentkit.context import TaskContext
from agentkit.handlers import SkillHandler, Traits
from agentkit.outcomes import Completed, Failed, Outcome, Rejected

PIECE = 4096  # bytes that are read at once
LONGEST_LINE = 2000  # characters of progress
MOST_LINES = 200  # of progress, in a turn
LONGEST_NAME = 200  # characters of a file's name
POLL_SECONDS = 0.05
READ_SECONDS = 30.0  # for what an ended program has printed
STOP_SECONDS = 1.0  # for a stopped program to end by itself


class CommandAgent(SkillHandler):
    """A program, started once for each turn, in a process group of its own that ends with the turn."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: str | os.PathLike[str] = ".",
        environment: Mapping[str, str] | None = None,
        **traits: Unpack[Traits],
    ) -> None:
        """`environment` is added to what the program always gets: the path, the home and the language."""
        self.command = list(command)
        self.folder = Path(folder)
        self.environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.environment |= environment or {}
        self.name = Path(self.command[0]).stem.replace("_", " ").replace("-", " ")
        self.description = f"The program {Path(self.command[0]).name}."
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Outcome:
        if any(file.url is not None for file in task.message.files):
            return Rejected("This agent takes files, not links to files.")
        with tempfile.TemporaryDirectory() as given, tempfile.TemporaryDirectory() as made:
            await asyncio.to_thread(_write, task.message.files, Path(given))
            own = {"FILES": given, "OUTPUT": made, "CONTEXT_ID": task.context_id, "TASK_ID": task.task_id}
            try:
                program = await asyncio.create_subprocess_exec(
                    *self.command, cwd=self.folder, env=self.environment | own, start_new_session=True,
                    stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                )  # fmt: skip
            except OSError as error:
                return Failed(f"The program {self.command[0]} did not start: {error.strerror}.", "not_started")
            lines: deque[str] = deque(maxlen=3)
            talk = asyncio.gather(_talk(program, task), _progress(program, task, lines))
            try:
                code = await _ended(program, talk)
            finally:
                talk.cancel()
                await _end(program)
            if code != 0:
                why = lines[-1] if lines else f"It ended with the exit code {code}."
                return Failed(why, "exit_code", {"exitCode": code})
            return Completed(artifacts=await asyncio.to_thread(_read, Path(made)))


def _write(files: Sequence[File], folder: Path) -> None:
    for at, file in enumerate(files):
        name = re.sub(r"[\x00-\x1f]", "", Path(file.name).name)[-LONGEST_NAME:]
        path = folder / (name if name not in ("", "..") else f"file-{at}")
        (path if not path.exists() else folder / f"{at}-{path.name}").write_bytes(file.read())


def _read(folder: Path) -> list[Artifact]:
    files = (path for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink())
    return [Artifact.file(path) for path in files]


async def _ended(program: asyncio.subprocess.Process, talk: asyncio.Future[Any]) -> int:
    """The exit code, once all is read. Children that keep its output open are ended with it."""
    while program.returncode is None and not talk.done():  # `wait()` waits for the output's end, too
        await asyncio.wait({talk}, timeout=POLL_SECONDS)
    if program.returncode is None:
        await talk
        return await program.wait()
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    if (await asyncio.wait({talk}, timeout=READ_SECONDS))[0]:
        talk.result()
    return program.returncode


async def _talk(program: asyncio.subprocess.Process, task: TaskContext) -> None:
    """Gives it the message, and streams what it prints."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(words_of(task.message).encode())
    program.stdin.close()  # it may read all, some or nothing of it
    text = codecs.getincrementaldecoder("utf-8")("replace")
    while piece := await program.stdout.read(PIECE):
        if said := text.decode(piece):
            await task.token(said)
    if said := text.decode(b"", final=True):
        await task.token(said)


async def _progress(program: asyncio.subprocess.Process, task: TaskContext, newest: deque[str]) -> None:
    """The lines of its standard error are progress."""
    assert program.stderr is not None
    text, rest, count = codecs.getincrementaldecoder("utf-8")("replace"), "", 0
    while piece := await program.stderr.read(PIECE):
        *whole, rest = (rest + text.decode(piece))[-PIECE * 4 :].split("\n")
        for line in filter(None, (one.strip()[:LONGEST_LINE] for one in whole)):
            newest.append(line)
            count += 1
            if count <= MOST_LINES:
                await task.progress(line)
    if rest.strip():
        newest.append(rest.strip()[:LONGEST_LINE])


async def _end(program: asyncio.subprocess.Process) -> None:
    """Ends the program and those that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(program.pid, number)
        if program.returncode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(program.wait(), STOP_SECONDS)


agent = CommandAgent
serve = serving(agent)
