"""Logs: an event a line, as JSON or for a console, without secrets and without what people and agents say.

An exception's text may quote a message or a key. So a line has the type and the stack, and the text only of exceptions
that are about machines (`OPERATIONAL`) or whose class promises, by `loggable = True`, that it quotes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, Literal, TextIO

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, WrappedLogger

from parley.telemetry import tracing

OPERATIONAL = {
    "django.core.exceptions.ImproperlyConfigured",
    "django.db.utils.InterfaceError",
    "django.db.utils.OperationalError",
    "kombu.exceptions.OperationalError",
    "psycopg.OperationalError",
    "redis.exceptions.ConnectionError",
    "sqlite3.OperationalError",
}
"""Exceptions whose texts say what is wrong with a machine, with their subclasses."""

MAX_TEXT = 1000  # characters of an exception's type and text
type Texts = Literal["none", "loggable", "all"]
CODE = re.compile(r"\w{1,60}")
LATER_SECONDS = 0.01
MAX_CHAIN = 10  # exceptions of one chain or group
FIELDS = ("method", "path", "status", "duration_ms", "exception")  # that a line may bring along
WHOLE = "whole"  # attribute of records of an agent's error: its traceback with texts, for its author's terminal alone
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # which a terminal may obey
RAISED = "raised"  # attribute of records whose error is for reports alone (`parley.telemetry.errors`), not for a line


def logging_config(
    *, as_json: bool, level: str, access: bool, agent_output: bool, agent_errors: bool, texts: bool
) -> dict[str, Any]:
    """Django's LOGGING.

    Args:
        as_json: one JSON object per line; otherwise for a console.
        level: of Parley's own loggers. Libraries log warnings, or less if the level is higher.
        access: log a line per request.
        agent_output: log what handlers print.
        agent_errors: show the whole tracebacks of handlers, with their texts, where a terminal shows the log.
        texts: show the texts of all exceptions, whatever they quote.
    """
    libraries = level if logging.getLevelNamesMapping()[level] > logging.WARNING else "WARNING"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": formatter, "as_json": as_json, "agent_errors": agent_errors, "texts": texts}},
        "handlers": {"console": {"()": Lines, "formatter": "line"}},
        "root": {"handlers": ["console"], "level": libraries},
        "loggers": {
            "parley": {"level": level},
            "agentkit": {"level": level},
            "parley.access": {} if access else {"level": "ERROR"},
            "parley.agents": {} if agent_output else {"level": "ERROR"},
            "celery.worker.strategy": {"level": "WARNING"},  # otherwise a line per message
            "celery.app.trace": {"level": "WARNING"},  # otherwise a line per job
            "django.request": {"level": "ERROR"},
            "httpx": {"level": "WARNING"},  # it logs whole URLs, which may contain API keys
            "django.security.DisallowedHost": {"level": "CRITICAL"},  # scanners
        },
    }


class Lines(logging.StreamHandler[TextIO]):
    """Writes lines to standard error.

    An event loop's lines below WARNING wait up to LATER_SECONDS for others: a write lets other threads run, and costs
    the loop more than making the line.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # which will write them

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record) + self.terminator)
            loop = _running_loop() if record.levelno < logging.WARNING else None
            if loop is None:
                self.flush()
            elif loop is not self._loop:
                self._loop = loop
                loop.call_later(LATER_SECONDS, self.flush)
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        with self.lock or nullcontext():
            lines, self._lines, self._loop = self._lines, [], None
            if lines:
                self.stream.write("".join(lines))
        super().flush()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def formatter(*, as_json: bool, agent_errors: bool = False, texts: bool = False) -> logging.Formatter:
    """The formatter of all lines; arguments as of `logging_config`."""
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(allow=FIELDS),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace,
        _Errors(texts),
    ]
    last: Any = structlog.processors.JSONRenderer()
    if not as_json:
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    return _Line(
        foreign_pre_chain=common,
        processors=[ProcessorFormatter.remove_processors_meta, last],
        with_agent_errors=agent_errors and not as_json and sys.stderr.isatty(),
        with_texts=texts,
    )


class _Line(ProcessorFormatter):
    """Cleans records before they become lines. Other handlers get the original."""

    def __init__(self, *, with_agent_errors: bool, with_texts: bool, **options: Any) -> None:
        super().__init__(**options)
        self._with_agent_errors, self._with_texts = with_agent_errors, with_texts

    def format(self, record: logging.LogRecord) -> str:
        if self._with_agent_errors and (whole := getattr(record, WHOLE, "")):
            record = logging.makeLogRecord(record.__dict__ | {"exception": _shown(whole)})
        return super().format(record if self._with_texts else cleaned(record))


def _shown(whole: str) -> str:
    """A traceback in color, for a terminal."""
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import PythonTracebackLexer

    plain = CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", whole)
    return str(highlight(plain, PythonTracebackLexer(), TerminalFormatter())).rstrip()


def cleaned(record: logging.LogRecord) -> logging.LogRecord:
    """The record, or a copy without the texts of exceptions among its arguments and in libraries' own lines."""
    clean = CLEANERS.get(record.name)
    args = record.args
    if clean is None and not (isinstance(args, tuple) and any(isinstance(arg, BaseException) for arg in args)):
        return record
    copy = logging.makeLogRecord(record.__dict__)
    if isinstance(args, tuple):
        copy.args = tuple(describe(arg) if isinstance(arg, BaseException) else arg for arg in args)
    if clean is not None:
        clean(copy)
    return copy


def _keep_first_line(record: logging.LogRecord) -> None:
    record.msg, record.args = record.getMessage().partition("\n")[0].partition(":")[0], ()


def _without_job_error(record: logging.LogRecord) -> None:
    if isinstance(record.args, Mapping):
        record.args = {**record.args, "exc": "see below", "traceback": ""}


def _with_route(record: logging.LogRecord) -> None:
    """Addresses may have secrets: those of links that are shared or that ask for a credential."""
    match = getattr(getattr(record, "request", None), "resolver_match", None)
    record.msg, record.args = "a page failed: /%s", (match.route if match else "",)


CLEANERS: dict[str, Callable[[logging.LogRecord], None]] = {
    "asyncio": _keep_first_line,  # the other lines show tasks with their exceptions
    "celery.app.trace": _without_job_error,
    "daphne.server": _keep_first_line,
    "django.request": _with_route,
}
"""How the lines of libraries that put texts of exceptions or addresses into their messages are cleaned."""


def _add_trace(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    if (ids := tracing.current_ids()) is not None:
        event["trace_id"], event["span_id"] = ids.trace_id, ids.span_id
    return event


class _Errors:
    """Replaces `exc_info` by the exception's stack."""

    def __init__(self, texts: bool) -> None:
        self._texts = texts

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        given = event.pop("exc_info", None)
        error = given[1] if isinstance(given, tuple) else given
        if isinstance(error, BaseException):
            event["exception"] = stack_of(error, texts="all" if self._texts else "loggable")
        return event


def stack_of(error: BaseException, *, texts: Texts = "loggable") -> str:
    """The stacks of an exception and its causes, oldest first, with their types and these of their texts."""
    lines: list[str] = []
    for one in chain(error):
        lines += ["Traceback (most recent call last):\n", *traceback.format_tb(one.__traceback__)]
        lines += [describe(one, texts=texts), "\n\n"]
    return "".join(lines).rstrip()


def chain(error: BaseException) -> list[BaseException]:
    """The exception with its causes and the members of groups, oldest first."""
    found: list[BaseException] = []

    def visit(one: BaseException | None) -> None:
        if one is None or one in found or len(found) >= MAX_CHAIN:
            return
        found.append(one)
        visit(one.__cause__ or (None if one.__suppress_context__ else one.__context__))
        for member in one.exceptions if isinstance(one, BaseExceptionGroup) else ():
            visit(member)

    visit(error)
    return found[::-1]


def describe(error: BaseException, *, texts: Texts = "loggable") -> str:
    """An exception's type with its text, if these texts are wanted, or else with its code if it has one."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if texts == "all" or (texts == "loggable" and is_loggable(kind)):
        return f"{name}: {error}"[:MAX_TEXT]
    if isinstance(error, OSError):  # its text may be anybody's own, or name a file
        return f"{name}: {os.strerror(error.errno)}" if isinstance(error.errno, int) else name
    code = getattr(error, "reason", None) or getattr(error, "code", None)
    if kind is SystemExit:  # `sys.exit("…")` keeps a text there
        return name
    return f"{name} ({code})" if isinstance(code, str) and CODE.fullmatch(code) else name


def is_loggable(kind: type[BaseException]) -> bool:
    """May the texts of such exceptions be logged?"""
    return getattr(kind, "loggable", False) or any(name in OPERATIONAL for name in _names(kind))


def _names(kind: type[BaseException]) -> Iterator[str]:
    return (f"{one.__module__}.{one.__qualname__}" for one in kind.__mro__)
