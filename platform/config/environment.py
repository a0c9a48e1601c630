"""Settings read from the environment: secrets, database, channel layer, broker and logging. Bad values fail loudly."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

import environ
import structlog
from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parents[2]

env = environ.Env()
environ.Env.read_env(ROOT / ".env")


def data_dir() -> Path:
    """The folder of everything this installation keeps outside a database server (`DATA_DIR`, default `var/`)."""
    path = Path(ROOT / env.str("DATA_DIR", default="var")).resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path


def secret(name: str, folder: Path, *, size: int, may_generate: bool) -> str:
    """The secret `name` from the environment; otherwise one of `folder`, made there at the first start (mode 600).

    A secret that is made has `size` random bytes, in URL-safe base64.
    Raises ImproperlyConfigured where it is unset and `may_generate` is false.
    """
    if value := str(env.str(name, default="")):
        return value
    if not may_generate:
        raise ImproperlyConfigured(
            f"{name} is not set. Put {size} random bytes in URL-safe base64 into it: "
            f"python3 -c 'import secrets; print(secrets.token_urlsafe({size}))'"
        )
    path = folder / name.lower().replace("_", "-")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(value := secrets.token_urlsafe(size))
    return value


def database(url: str, *, bridge_threads: int) -> dict[str, Any]:
    """Django's settings for a database URL: SQLite with one writer and WAL, or PostgreSQL with a pool."""
    config: dict[str, Any] = dict(environ.Env.db_url_config(url))
    if config["ENGINE"].endswith("sqlite3"):
        config["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-64000;",
        }
        # Threads and processes share the test database, so it is a file, never memory.
        config["TEST"] = {"NAME": str(Path(config["NAME"]).with_name(f"test-{os.getpid()}.sqlite3"))}
    elif config["ENGINE"].endswith("postgresql"):
        # Database threads and those of plans keep a connection each; the rest of the pool serves pages and admin.
        config["OPTIONS"] = {
            "server_side_binding": True,  # with it statements are prepared: planned once a connection
            "prepare_threshold": 2,
            # A line that a firewall dropped silently is noticed within a minute.
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            # Whoever waits asks anew when these seconds are over: a server that is back is found before long.
            # Every ten seconds one that pages left idle is closed.
            "pool": {
                "min_size": 1,
                "max_size": bridge_threads + 20,
                "max_idle": 10,
                "timeout": 5,
                "reconnect_timeout": 3,
            },
        }
        config["CONN_HEALTH_CHECKS"] = True  # when the pool gives a connection out; after a restart its own are broken
        config["TEST"] = {"NAME": f"test_parley_{os.getpid()}"}
    else:
        raise ImproperlyConfigured("DATABASE_URL must begin with sqlite:// or postgres://.")
    return config


def channel_layer(url: str, *, prefix: str) -> dict[str, Any]:
    """Channels' settings for `CHANNEL_LAYER_URL`: `memory://` within one process, or Redis publish/subscribe.

    Redis publishes to all of its databases alike, so names begin with `prefix`.
    """
    if url.startswith("memory://"):
        return {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    if url.startswith(("redis://", "rediss://")):
        return {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [url], "prefix": prefix},
        }
    raise ImproperlyConfigured("CHANNEL_LAYER_URL must be memory:// or begin with redis:// or rediss://.")


def broker_options(url: str) -> dict[str, Any]:
    """Celery's transport options for `CELERY_BROKER_URL`.

    Redis knows no acknowledgements. Celery imitates them with two more transactions a message, and gives a message back
    an hour after its worker died; the sweep finds its run in half a minute.
    """
    return {"ack_emulation": False} if url.startswith(("redis://", "rediss://")) else {}


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
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_log_renderers(as_json)],
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


def _log_renderers(as_json: bool) -> list[Any]:
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain, pad_event_to=0)]
