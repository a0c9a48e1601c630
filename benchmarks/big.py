"""Pages of a long session and of long tables: time, and processor time of the web process and PostgreSQL."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator

import httpx

from benchmarks.figures import Figures, latencies
from benchmarks.http import Connection
from benchmarks.rpc import said
from benchmarks.scale import Scale
from benchmarks.target import Target, backends, seconds_of

REQUESTS = 12  # of a page, at least
SECONDS = 1.0  # of a page, at least: processor time is counted in steps of 10 ms
PER_TASK = 6  # events of an `echo` task
SENDERS = 8
ADMIN = {
    "tasks": ("record/task", "state__exact=failed", "bulk"),
    "sessions": ("record/context", "deleted_at__isempty=0", "session 7"),
    "messages": ("record/message", "role__exact=agent", "question"),
    "runs": ("record/run", "state__exact=failed", "worker 3"),
    "events": ("record/event", "type__exact=agent_complete", "answer"),
}
"""Each list's address, a filter and words."""
SEARCHES = {"one message": "only77", "0.1% of the messages": "word77", "all messages": "hello"}

_long: dict[str, tuple[str, str]] = {}  # by target: a session of streamed answers, and one of tasks


def fill(target: Target, scale: Scale) -> None:
    target.run("benchmarks.rows", "record", "echo", str(scale.many))
    streamed = target.inside.python("-m", "benchmarks.sessions", "0", str(scale.events)).stdout.strip()
    _long[target.name] = streamed, asyncio.run(_converse(target, scale.events // PER_TASK))


async def _converse(target: Target, tasks: int) -> str:
    """A session of so many tasks, by the server itself."""
    async with target.client() as client:
        context = (await client.send("echo"))["contextId"]
    left = iter(range(tasks - 1))

    async def send() -> None:
        async with target.client() as client:
            for _ in left:
                params = said("hello")
                params["message"]["contextId"] = context
                await client.call("echo", "SendMessage", params)

    await asyncio.gather(*(send() for _ in range(SENDERS)))
    return str(context)


async def pages(target: Target, scale: Scale) -> Figures:
    stack, figures = target.inside, Figures()
    for email, password, addresses in (
        (stack.demo_email, stack.demo_password, dict(_of_people(target, scale))),
        (stack.admin_email, stack.admin_password, dict(_of_operators())),
    ):
        headers = {"Cookie": await _signed_in(target, email, password)}
        async with Connection(target.url, headers) as connection:
            for title, address in addresses.items():
                figures |= await _measured(target, connection, title, address)
    return figures


def _of_people(target: Target, scale: Scale) -> Iterator[tuple[str, str]]:
    yield "home", "/"
    for kind, session in zip(("streamed answers", "tasks"), _long[target.name], strict=True):
        yield f"session page, {kind}", f"/sessions/{session}"
        yield f"API, all of the session, {kind}", f"/api/v1/sessions/{session}?events_limit={scale.events}"
        yield f"API, 100 events, {kind}", f"/api/v1/sessions/{session}/events?limit=100"
        yield f"API, 100 messages, {kind}", f"/api/v1/sessions/{session}/messages?limit=100"
    for title, words in SEARCHES.items():
        yield f"search, found in {title}", f"/api/v1/search?q={words}"


def _of_operators() -> Iterator[tuple[str, str]]:
    for name, (path, chosen, words) in ADMIN.items():
        yield f"admin, {name}", f"/admin/{path}/"
        yield f"admin, {name}, filter", f"/admin/{path}/?{chosen}"
        yield f"admin, {name}, search", f"/admin/{path}/?q={words.replace(' ', '+')}"


async def _signed_in(target: Target, email: str, password: str) -> str:
    """The session's cookies."""
    async with httpx.AsyncClient(base_url=target.url, timeout=60) as http:
        form = (await http.get("/sign-in")).text
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
        assert token, form
        entered = {"username": email, "password": password, "csrfmiddlewaretoken": token[1]}
        answer = await http.post("/sign-in", data=entered, headers={"Referer": target.url})
        assert answer.status_code == 302, answer.text
        return "; ".join(f"{name}={value}" for name, value in http.cookies.items())


async def _measured(target: Target, connection: Connection, title: str, address: str) -> Figures:
    await connection.fetch("GET", address)
    before, began = _processes(target), time.perf_counter()
    seconds: list[float] = []
    while len(seconds) < REQUESTS or time.perf_counter() - began < SECONDS:
        asked = time.perf_counter()
        await connection.fetch("GET", address)
        seconds.append(time.perf_counter() - asked)
    spent = dict.fromkeys(("web", "PostgreSQL"), 0.0)
    for (name, process), after in _processes(target).items():
        spent[name] += after - before.get((name, process), 0.0)
    processor = {f"{title}, {name} ms": used * 1000 / len(seconds) for name, used in spent.items()}
    return latencies(seconds, title, 50) | processor


def _processes(target: Target) -> dict[tuple[str, int], float]:
    """Processor seconds of the web process and each of its database's sessions. SQLite works in the web process."""
    stack = target.inside
    if stack.is_embedded:
        processes = [("web", stack.processes["serve"].pid)]
    else:
        sessions = backends(stack.services["DATABASE_URL"], stack.name)
        processes = [("web", stack.processes["web"].pid), *(("PostgreSQL", one) for one in sessions)]
    return {(name, process): seconds_of(process) for name, process in processes}
