"""How the log looks: lines for people in a terminal, JSON for machines that collect it.

Code logs with the standard library; what is bound to `structlog.contextvars` (request, run, task) comes along.
"""

from __future__ import annotations

import sys
from typing import Any

import structlog


def logging_config(*, as_json: bool) -> dict[str, Any]:
    """Django's LOGGING; `as_json` for one JSON object a line."""
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": common,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(as_json)],
            }
        },
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["console"], "level": "WARNING"},
        "loggers": {
            "parley": {"level": "INFO"},
            "celery.worker.strategy": {"level": "WARNING"},  # a line for each message that came
            "celery.app.trace": {"level": "WARNING"},  # and for each that was taken
            "django.request": {"level": "ERROR"},
            "httpx": {"level": "WARNING"},  # it names whole URLs, in which an API key may stand
            "django.security.DisallowedHost": {"level": "CRITICAL"},  # scanners; the client gets its 400
        },
    }


def _renderers(as_json: bool) -> list[Any]:
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain, pad_event_to=0)]
