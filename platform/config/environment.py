"""Settings from the environment: secrets, database, channel layer, broker and logging."""

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
    """The folder of all this installation's files (`DATA_DIR`, default `var/`)."""
    path = Path(ROOT / env.str("DATA_DIR", default="var")).resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path


def secret(name: str, folder: Path, *, size: int, may_generate: bool) -> str:
    """The secret `name` from the environment, or from `folder`, where the first start generates it (mode 600).

    It has `size` random bytes in URL-safe base64. Raises ImproperlyConfigured if it is unset and not `may_generate`.
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
    """Django's settings for a database URL: SQLite with WAL, or PostgreSQL with a pool."""
    config: dict[str, Any] = dict(environ.Env.db_url_config(url))
    if config["ENGINE"].endswith("sqlite3"):
        config["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-64000;",
        }
        # Threads and processes share the test database, so it is a file.
        config["TEST"] = {"NAME": str(Path(config["NAME"]).with_name(f"test-{os.getpid()}.sqlite3"))}
    elif config["ENGINE"].endswith("postgresql"):
        # Database threads and plan threads keep a connection each; pages and admin use the rest of the pool.
        config["OPTIONS"] = {
            "server_side_binding": True,  # needed to prepare statements
            "prepare_threshold": 2,
            # Detect dropped connections within a minute.
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            # Short timeouts find a restarted server soon.
            "pool": {
                "min_size": 1,
                "max_size": bridge_threads + 20,
                "max_idle": 10,
                "timeout": 5,
                "reconnect_timeout": 3,
            },
        }
        config["CONN_HEALTH_CHECKS"] = True  # pooled connections are broken after a restart
        config["TEST"] = {"NAME": f"test_parley_{os.getpid()}"}
    else:
        raise ImproperlyConfigured("DATABASE_URL must begin with sqlite:// or postgres://.")
    return config


def channel_layer(url: str, *, prefix: str) -> dict[str, Any]:
    """Channels' settings for `CHANNEL_LAYER_URL`: `memory://` for one process, or Redis.

    Names begin with `prefix`, because publish/subscribe spans all databases of a Redis.
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

    On Redis, Celery imitates acknowledgements with two transactions per message, and redelivers after an hour. The
    sweep finds a lost run in half a minute, so this is turned off.
    """
    return {"ack_emulation": False} if url.startswith(("redis://", "rediss://")) else {}


def logging_config(*, as_json: bool) -> dict[str, Any]:
    """Django's LOGGING; `as_json`: one JSON object per line."""
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
            "celery.worker.strategy": {"level": "WARNING"},  # otherwise a line per message
            "celery.app.trace": {"level": "WARNING"},  # otherwise a line per job
            "django.request": {"level": "ERROR"},
            "httpx": {"level": "WARNING"},  # it logs whole URLs, which may contain API keys
            "django.security.DisallowedHost": {"level": "CRITICAL"},  # scanners
        },
    }


def _log_renderers(as_json: bool) -> list[Any]:
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain, pad_event_to=0)]
