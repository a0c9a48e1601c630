"""Follows a page: writes files, runs Python and commands, compares output."""

import ast
import asyncio
import contextlib
import importlib
import inspect
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.docs.pages import Block, Page, PageError
from tests.stack import ROOT, Stack

SHOWN_URL, SHOWN_KEY = "http://127.0.0.1:8000", "YOUR-KEY"
COMMAND_SECONDS = 180
PROMPT, ANSWER = "$ ", "> "
ANY_LINES = "(?:.*\n)?"


@dataclass
class Reader:
    """Works in a folder outside the repository, with `manage.py`; `server` starts a Parley."""

    folder: Path
    server: Callable[[], Stack]
    scopes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def follow(self, page: Page) -> None:
        """Run the page block by block. Raises a block's exception, or PageError."""
        with contextlib.chdir(self.folder):
            for block in page.blocks:
                if not block.why_not:
                    self.execute(block)

    def execute(self, block: Block) -> None:
        if block.file:
            if block.is_module:
                importlib.import_module(block.file.removesuffix(".py").replace("/", "."))
        elif block.language == "python":
            self._compare(block, block.output, self._run_python(block))
        elif block.language == "sh":
            self._compare(block, block.output, self._run(block, self._filled(block.code)))
        else:
            for command, shown, answers in sessions(block):
                self._compare(block, shown, self._run(block, self._filled(command), answers))

    def write_files(self, page: Page) -> None:
        for block in page.blocks:
            if block.file:
                path = self.folder / block.file
                if path.exists():
                    raise PageError(f"{block.where}: another block is {block.file} already.")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.code)

    def _run_python(self, block: Block) -> str:
        """The output. A page's blocks are one module; `await` may stand at top level."""
        scope = self.scopes.setdefault(block.page, {"__name__": f"page {block.page}"})
        source = "\n" * (block.line - 1) + self._filled(block.code)  # so that errors name the page's line
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        # Without this module's postponed annotations, which a model of the page could not resolve.
        code = compile(source, str(ROOT / block.page), "exec", flags=flags, dont_inherit=True)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if inspect.isawaitable(done := eval(code, scope)):
                asyncio.run(_waited(done))
        return printed.getvalue()

    def _run(self, block: Block, command: str, answers: str = "") -> str:
        """The output of a successful command, both streams. `answers` are what the reader types into its terminal."""
        if answers and " ask " in command:
            command = f"{command.rstrip()} --answers"
        done = subprocess.run(
            ["sh", "-eu", "-c", command],
            cwd=self.folder, env=self._environment(), input=answers, text=True, timeout=COMMAND_SECONDS, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise PageError(f"{block.where}: exit status {done.returncode}\n{command}\n{done.stdout}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        environment = self.server().environment
        return {
            **environment,
            "HOME": str(self.folder.parent),
            "CURL_HOME": str(self.folder.parent),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
        }

    def _filled(self, code: str) -> str:
        """The code with the server's address and key."""
        if SHOWN_URL not in code and SHOWN_KEY not in code:
            return code
        server = self.server()
        return code.replace(SHOWN_URL, server.url).replace(SHOWN_KEY, server.demo_key)

    def _compare(self, block: Block, shown: str | None, printed: str) -> None:
        if shown is not None and not matches(shown, printed):
            raise PageError(f"{block.where} shows\n{shown}\nbut it prints\n{printed}")


@contextlib.contextmanager
def reader_in(folder: Path, server: Callable[[], Stack]) -> Iterator[Reader]:
    """A reader whose modules are importable meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("manage.py", "docs"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    (folder.parent / ".curlrc").write_text("fail-with-body\nshow-error\n")
    known = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield Reader(folder, server)
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


def sessions(block: Block) -> Iterator[tuple[str, str | None, str]]:
    """Commands of a console block, each with its expected output and typed answers.

    Lines that begin with `> ` are answers: the program prints the prompt, and the reader types the rest.
    """
    if not block.code.startswith(PROMPT):
        raise PageError(f"{block.where}: a console block begins with {PROMPT!r} and a command.")
    for session in re.split(rf"^{re.escape(PROMPT)}", block.code, flags=re.MULTILINE)[1:]:
        lines = session.splitlines(keepends=True)
        ends = next(number for number, line in enumerate(lines) if not line.endswith("\\\n"))
        command, shown = "".join(lines[: ends + 1]), "".join(lines[ends + 1 :])
        answers = "".join(re.findall(rf"^{ANSWER}(.*\n)", shown, re.MULTILINE))
        # A pipe does not echo the typed text or its newline.
        yield command, re.sub(rf"^{ANSWER}.*\n", ANSWER, shown, flags=re.MULTILINE) or None, answers


def matches(shown: str, printed: str) -> bool:
    """`…` stands for anything; on its own line, for any number of lines."""
    lines = [
        ANY_LINES if line == "…" else ".*".join(map(re.escape, (line + "\n").split("…"))) for line in _lines(shown)
    ]
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in _lines(printed)), re.DOTALL) is not None


def _lines(text: str) -> list[str]:
    """Without trailing spaces."""
    return [line.rstrip() for line in text.strip().splitlines()]


async def _waited(done: Any) -> None:
    await done
