"""The SDK's last client of A2A 0.3, in its own process and environment."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.a2a.calling import JSON

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"


class OldSdkError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class OldSdk:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def events(self, do: str, **order: Any) -> AsyncGenerator[JSON]:
        """Results of a command as they come. Raises OldSdkError."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"do": do, **order}).encode() + b"\n")
        await self._process.stdin.drain()
        failed = None
        while line := await self._process.stdout.readline():
            answer = json.loads(line)
            if "done" in answer:
                break
            if "error" in answer:
                failed = OldSdkError(**answer["error"])
            else:
                yield answer
        else:
            raise AssertionError("the client's process has ended")
        if failed:
            raise failed

    async def one(self, do: str, **order: Any) -> JSON:
        """A command's last result. Raises OldSdkError."""
        last = [event async for event in self.events(do, **order)][-1]
        shown: JSON = next(iter(last.values()))
        return shown

    def send(self, message: JSON, *, streaming: bool = True) -> AsyncGenerator[JSON]:
        return self.events("send", message=message, streaming=streaming, polling=False)

    async def answer(self, message: JSON, *, polling: bool = False) -> JSON:
        return await self.one("send", message=message, streaming=False, polling=polling)


@asynccontextmanager
async def talking(url: str, key: str, transport: str) -> AsyncIterator[OldSdk]:
    """A client made from the old card at a URL. Skips the test if the SDK is not available."""
    python, reason = await asyncio.to_thread(interpreter)
    if reason:
        pytest.skip(reason)
    process = await asyncio.create_subprocess_exec(
        str(python), "-I", str(HERE / "program.py"), url, key, transport,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=16 * 1024 * 1024,
    )  # fmt: skip
    try:
        yield OldSdk(process)
    finally:
        process.kill()
        await process.wait()


@cache
def interpreter() -> tuple[Path, str]:
    """The old SDK's Python, or why there is none. Installed once for each requirements.txt."""
    named = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "parley" / f"old-sdk-{named}"
    reason = "" if folder.exists() else _install(folder)
    return folder / "bin" / "python", reason


def _install(folder: Path) -> str:
    """Install elsewhere, then rename, so that no half is ever found. Returns the reason of a failure."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        pip = [f"{made}/bin/python", "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20"]
        exactly = ["--require-hashes", "--only-binary", ":all:", "--requirement", str(REQUIREMENTS)]
        try:
            subprocess.run([sys.executable, "-m", "venv", made], check=True, capture_output=True, text=True)
            subprocess.run([*pip, *exactly], check=True, capture_output=True, text=True, timeout=120)
        except (subprocess.SubprocessError, OSError) as error:
            said = getattr(error, "stderr", "") or str(error)
            return f"the SDK of A2A 0.3 cannot be installed: {said.strip().splitlines()[-1]}"
        with suppress(OSError):  # another process was faster
            Path(made).rename(folder)
    return ""
