"""Reports of errors to Sentry, or to what speaks its protocol. They are off unless a DSN is set.

A report has an error's type and stack, and Parley's ids of request, run and task. It has nothing that people or agents
say: no body, no query, no header, no local variable, no text of an exception that `parley.telemetry.logs` keeps out.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from structlog.contextvars import get_contextvars

from parley.telemetry import logs, tracing

type Event = Any  # Sentry's own, a TypedDict of the optional package

TAGS = ("request", "run", "task", "agent")
FLUSH_SECONDS = 2
KEPT_FIELDS = {
    "event_id", "timestamp", "level", "logger", "platform", "release", "environment", "server_name", "sdk", "modules",
    "exception", "logentry", "threads", "tags", "fingerprint", "transaction", "contexts",
}  # fmt: skip


class NoSentry(ValueError):
    """SENTRY_DSN is set, but the package is not installed. Run `pip install sentry-sdk`, or remove the setting."""


def configure(dsn: str, *, release: str, environment: str, **options: Any) -> None:
    """Report errors from now on; `options` go to Sentry's client. Raises ValueError, as a sentence."""
    if not dsn:
        return
    try:
        import sentry_sdk
    except ImportError:
        raise NoSentry(NoSentry.__doc__) from None
    from sentry_sdk.integrations.celery import CeleryIntegration
    from sentry_sdk.integrations.django import DjangoIntegration
    from sentry_sdk.utils import BadDsn

    try:
        sentry_sdk.init(
            dsn,
            release=release,
            environment=environment,
            send_default_pii=False,
            max_request_body_size="never",
            include_local_variables=False,
            max_breadcrumbs=0,  # they have addresses and lines of other loggers
            trace_propagation_targets=[],
            auto_enabling_integrations=False,  # some report models' messages
            integrations=[DjangoIntegration(middleware_spans=False, signals_spans=False), CeleryIntegration()],
            before_send=_clean,
            shutdown_timeout=FLUSH_SECONDS,
            **options,
        )
    except BadDsn:
        raise ValueError("SENTRY_DSN is not a DSN: copy it from the project's settings in Sentry.") from None


def flush() -> None:
    """Send the reports that wait to be sent, for at most FLUSH_SECONDS."""
    if (sentry := sys.modules.get("sentry_sdk")) is not None:
        sentry.flush(FLUSH_SECONDS)


def _clean(event: Event, hint: dict[str, Any]) -> Event:
    """The event without what it must not have, and with Parley's ids."""
    import sentry_sdk
    from sentry_sdk.utils import event_from_exception

    kept = {name: value for name, value in event.items() if name in KEPT_FIELDS}
    known = get_contextvars()
    kept["tags"] = {**kept.get("tags", {}), **{name: str(known[name]) for name in TAGS if name in known}}
    if (ids := tracing.current_ids()) is not None:
        kept["contexts"] = {"trace": {"trace_id": ids.trace_id, "span_id": ids.span_id}}
    else:
        kept["contexts"] = {name: value for name, value in kept.get("contexts", {}).items() if name == "runtime"}
    error = (hint.get("exc_info") or (None, None))[1]
    record = hint.get("log_record")
    if isinstance(record, logging.LogRecord):
        kept["logentry"] = {"formatted": logs.cleaned(record).getMessage()}
        if (raised := getattr(record, logs.RAISED, None)) is not None:
            event, _ = event_from_exception(raised, sentry_sdk.get_client().options)
            kept["exception"] = event["exception"]
    _clean_exceptions(kept, error)
    return kept


def _clean_exceptions(kept: Event, error: BaseException | None) -> None:
    chain = logs.chain(error) if error else []
    secret = {str(one) for one in chain if not logs.is_loggable(type(one))}
    loggable = {str(one) for one in chain} - secret
    for one in kept.get("exception", {}).get("values", []):
        if one.get("value") not in loggable:
            one["value"] = ""
        one.pop("mechanism", None)
