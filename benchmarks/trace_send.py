"""`python -m benchmarks.trace_send [--list] [--door a2a|api]`: our functions that one blocking, warm send enters.

Runs an embedded Parley in this process and counts with `sys.monitoring`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parents[1]
OURS = tuple(str(ROOT / name) + os.sep for name in ("apps", "platform", "examples"))
WARM = 30
AFTERWARDS = 0.3  # seconds for a send's background work


class Trace:
    """Functions entered, on all threads."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.changes = 0
        self.hops = 0
        self._last = threading.local()

    def enter(self, code: CodeType, _: int) -> None:
        if code.co_qualname == "DatabaseThreads.enqueue":
            self.hops += 1
        if not code.co_filename.startswith(OURS):
            return
        if code.co_name.startswith("<"):  # counts for the enclosing function
            return
        self.calls[code] += 1
        if getattr(self._last, "file", None) != code.co_filename:
            self.changes += 1
            self._last.file = code.co_filename

    @contextmanager
    def recording(self) -> Iterator[None]:
        tool = sys.monitoring.PROFILER_ID
        sys.monitoring.use_tool_id(tool, "trace-send")
        sys.monitoring.register_callback(tool, sys.monitoring.events.PY_START, self.enter)
        sys.monitoring.set_events(tool, sys.monitoring.events.PY_START)
        try:
            yield
        finally:
            sys.monitoring.set_events(tool, 0)
            sys.monitoring.free_tool_id(tool)

    def files(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for code, number in self.calls.items():
            found[code.co_filename.removeprefix(f"{ROOT}{os.sep}")] += number
        return found


def prepare(folder: str) -> str:
    os.environ |= {"DATA_DIR": folder, "DJANGO_SETTINGS_MODULE": "parley.settings", "ACTS_PER_MINUTE": "100000"}
    for name in ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_LAYER_URL"):
        os.environ.pop(name, None)
    import django

    django.setup()
    from django.core.management import call_command

    Path(folder, "static").mkdir(exist_ok=True)
    call_command("migrate", verbosity=0)
    from io import StringIO

    call_command("load_showcase", stdout=StringIO())
    key = StringIO()
    call_command("create_api_key", "demo@parley.local", stdout=key)
    return key.getvalue().strip()


def request(door: str) -> tuple[str, dict[str, object], dict[str, str]]:
    if door == "api":
        body: dict[str, object] = {"agent": "echo", "message": {"text": "hello"}, "wait": True}
        return "/api/v1/sessions", body, {"Idempotency-Key": str(uuid.uuid4())}
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return "/a2a/echo", body, {"A2A-Version": "1.0"}


async def trace(key: str, door: str) -> tuple[Trace, float]:
    """The trace of a send, and an untraced send's processor time in ms."""
    import httpx

    from parley.asgi import application

    transport = httpx.ASGITransport(application)
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", headers=headers) as client:

        async def send() -> None:
            path, body, more = request(door)
            answered = await client.post(path, json=body, headers=more)
            answered.raise_for_status()
            assert "hello" in answered.text, answered.text

        for _ in range(WARM):
            await send()
        began = time.process_time()
        for _ in range(100):
            await send()
        took = (time.process_time() - began) * 10
        await asyncio.sleep(AFTERWARDS)
        traces = []
        for _ in range(5):
            traces.append(Trace())
            with traces[-1].recording():
                await send()
                await asyncio.sleep(AFTERWARDS)
    return min(traces, key=lambda one: one.calls.total()), took  # the others include a periodic job


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace_send")
    parser.add_argument("--list", action="store_true", help="every file and function, with its calls")
    parser.add_argument("--door", choices=["a2a", "api"], default="a2a")
    parser.add_argument("--database", type=Path, help="a migrated SQLite file, which is copied; migrating takes longer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parley-trace-", ignore_cleanup_errors=True) as folder:
        if options.database:
            shutil.copyfile(options.database, Path(folder, "parley.sqlite3"))
        key = prepare(folder)
        from apps.engine import jobs

        with jobs.embedded_worker(grace=1):
            traced, took = asyncio.run(trace(key, options.door))
        files = traced.files()
        if options.list:
            for file, number in files.most_common():
                print(f"{number:5} {file}")
                inside = [(n, code) for code, n in traced.calls.items() if code.co_filename.endswith(file)]
                for n, code in sorted(inside, key=lambda one: one[1].co_firstlineno):
                    print(f"      {n:4} {code.co_qualname}")
        lines = sum(len((ROOT / file).read_text().splitlines()) for file in files)
        print(
            f"{len(files)} files ({lines} lines), {len(traced.calls)} functions, {traced.calls.total()} calls, "
            f"{traced.changes} changes of file, {traced.hops} hops; {took:.1f} ms of processor time a send"
        )


if __name__ == "__main__":
    main()
