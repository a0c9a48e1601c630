"""A line of the log says what happened to what, and never what people and agents said, or a secret."""

import asyncio
import json
import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from apps.agents.registration import register_hosted
from apps.engine.send import send, wait_until_settled
from apps.record import wire
from apps.record.execution import Run
from parley import db
from parley.outbound import Forbidden
from parley.telemetry import logs
from tests.telemetry.agents import HERE
from tests.telemetry.calling import ask, body, headers

CANARY = "canary-5e1d-words"
PASSWORD = "correct horse"


def line_of(message: str, *args: object, error: BaseException | None = None, name: str = "parley.engine") -> str:
    raised = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord(name, logging.ERROR, __file__, 1, message, args, raised)
    return logs.formatter(as_json=True).format(record)


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def test_stacks_are_logged_without_texts():
    line = line_of("it failed", error=raised(ValueError(CANARY), raised(KeyError(CANARY))))
    stack = json.loads(line)["exception"]
    assert stack.index("KeyError") < stack.index("ValueError")
    assert stack.count("in raised") == 2
    group = line_of("it failed: %s", ExceptionGroup(CANARY, [ValueError(CANARY)]), error=raised(OSError(CANARY)))
    assert CANARY not in line + group


def test_failures_of_machines_are_said():
    lost = OperationalError("connection to 10.0.0.7 refused")
    assert "10.0.0.7 refused" in line_of("away: %s", lost)
    assert "10.0.0.7 refused" in line_of("away", error=raised(lost))
    assert "private" in line_of("no: %s", Forbidden("a private network"))
    assert "No space left on device" in line_of("full: %s", OSError(28, CANARY, CANARY))


def test_lines_of_libraries_have_no_error_texts():
    future = f"Task exception was never retrieved\nfuture: <Task exception=ValueError('{CANARY}')>"
    job = {"name": "a2a.deliver", "id": "7", "exc": f"ValueError('{CANARY}')", "traceback": CANARY, "description": "x"}
    record = logging.LogRecord("celery.app.trace", logging.ERROR, "", 1, "%(name)s %(exc)s %(traceback)s", (job,), None)
    line = line_of(future, name="asyncio") + logs.formatter(as_json=True).format(record)
    assert "never retrieved" in line
    assert "a2a.deliver" in line
    assert CANARY not in line


def test_only_authors_terminal_shows_agents_errors(monkeypatch):
    record = logging.LogRecord("parley.engine", logging.ERROR, "", 1, "agent echo failed", (), None)
    setattr(record, logs.WHOLE, f"Traceback (most recent call last):\nValueError: {CANARY} \x1b[2J\n")
    others = [logs.formatter(as_json=False, agent_errors=True)]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    shown = logs.formatter(as_json=False, agent_errors=True).format(record)
    assert CANARY in shown
    assert "\x1b[2J" not in shown
    assert "\x1b[" in shown.partition("Traceback")[2]
    for other in (*others, logs.formatter(as_json=True, agent_errors=True), logs.formatter(as_json=False)):
        assert CANARY not in other.format(record)


async def test_lines_of_a_loop_are_written_together(monkeypatch):
    written, is_flushed = [], asyncio.Event()
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=written.append, flush=is_flushed.set))
    lines = logs.Lines()
    first, second = [logging.makeLogRecord({"msg": text, "levelno": logging.INFO}) for text in ("first", "second")]
    lines.handle(first)
    lines.handle(second)
    assert written == []
    lines.handle(logging.makeLogRecord({"msg": "third", "levelno": logging.WARNING}))
    assert written == ["first\nsecond\nthird\n"]
    is_flushed.clear()
    lines.handle(first)
    await is_flushed.wait()
    assert written[1:] == ["first\n"]


def test_level_format_and_kinds_of_lines_are_settings():
    def levels(**given: object) -> dict[str, str]:
        options = {
            "as_json": True,
            "level": "INFO",
            "access": True,
            "agent_output": True,
            "agent_errors": False,
            "texts": False,
        } | given
        made = logs.logging_config(**options)
        return {"": made["root"]["level"]} | {name: one.get("level", "") for name, one in made["loggers"].items()}

    assert levels(level="DEBUG")["parley"] == "DEBUG"
    assert levels(level="DEBUG")[""] == "WARNING"
    assert levels(level="ERROR")[""] == "ERROR"
    off = levels(access=False, agent_output=False)
    assert {off["parley.access"], off["parley.agents"]} == {"ERROR"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_engine_lines_name_run_task_and_span(ada, said, lines, spans):
    agent = await db.run(register_hosted, "failing", f"{HERE}:Failing")
    sent = await send(ada.principal, agent, said(CANARY))
    await wait_until_settled(sent.context, sent.task, sent.index, wire.load_task)
    await spans.finished("invoke_agent failing")
    [failed] = [event for event in lines.events if event["event"].startswith("agent failing failed")]
    run, context = await db.run(Run.objects.get, task=sent.task), spans.named["invoke_agent failing"].context
    assert {name: failed[name] for name in ("run", "task", "agent", "trace_id", "span_id")} == {
        "run": str(run.pk),
        "task": str(sent.task),
        "agent": "failing",
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
    }


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker", "ada")
async def test_no_line_has_a_message_or_a_secret(http, ada_key, lines, echo, monkeypatch):
    """At the level DEBUG: messages that succeed, fail, are refused and malformed; sign-ins, keys, uploads, pages."""
    known = headers(ada_key)
    for name in ("Failing", "Choosing", "Answering", "Keeping"):
        await db.run(register_hosted, name.lower(), f"{HERE}:{name}")
        await http.post(f"/a2a/{name.lower()}", json=body(CANARY), headers=known)
    await ask(http, ada_key, "echo", CANARY)
    as_json = known | {"Content-Type": "application/json"}
    await http.post("/a2a/echo", content=f'{{"{CANARY}": '.encode(), headers=as_json)
    await http.post("/a2a/echo", json={"jsonrpc": "2.0", "id": CANARY, "method": CANARY}, headers=known)
    await http.post("/a2a/echo", json=body(CANARY), headers=headers(f"{ada_key}-{CANARY}"))
    await http.post("/api/v1/sessions", json={"agent": CANARY, "text": CANARY, CANARY: 1}, headers=known)
    await http.get(f"/api/v1/search?q={CANARY}", headers=known)
    await http.post(f"/api/v1/uploads?filename={CANARY}", content=CANARY.encode(), headers=known)
    for password in (f"{PASSWORD} {CANARY}", PASSWORD):
        form = {"username": "ada@example.org", "password": password}
        await http.post("/sign-in", data=form, headers={"Origin": "http://localhost"})
    monkeypatch.setattr("apps.conversations.public_links.shares.Share.objects", Breaking())
    monkeypatch.setattr("apps.a2a.operations.send", Breaking())
    assert (await http.get(f"/shared/{CANARY}?token={CANARY}")).status_code == 500
    assert (await http.post("/a2a/echo", json=body(CANARY), headers=known)).json()["error"]["code"] == -32603
    assert len(lines.written) > 20
    assert sum("in __call__" in event.get("exception", "") for event in lines.events) == 2
    assert [line for line in lines.written if CANARY in line or ada_key in line or PASSWORD in line] == []


class Breaking:
    """Fails, and quotes a message, whatever is done with it."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise ValueError(CANARY)
