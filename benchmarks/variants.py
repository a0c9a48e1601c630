"""The compared variants: each a stack with a throwaway database."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from urllib.parse import urlsplit

from benchmarks.target import Target
from tests.stack import Stack

POSTGRESQL = "postgres://postgres@127.0.0.1:5432/postgres"
REDIS = "redis://127.0.0.1:6379/0"
RABBITMQ = "amqp://guest:guest@127.0.0.1:5672//"


def services() -> dict[str, dict[str, str]]:
    """Service URLs of each variant that this machine can run."""
    database = os.environ.get("DATABASE_URL", POSTGRESQL)
    layer = os.environ.get("CHANNEL_LAYER_URL", REDIS)
    named = os.environ.get("CELERY_BROKER_URL", RABBITMQ)
    brokers = {"Redis": layer, "RabbitMQ": named if named.startswith("amqp") else RABBITMQ}
    found: dict[str, dict[str, str]] = {"embedded": {}}
    for broker, url in brokers.items():
        urls = {"DATABASE_URL": database, "CELERY_BROKER_URL": url, "CHANNEL_LAYER_URL": layer}
        if all(listens(one) for one in urls.values()):
            found[f"services, {broker}"] = urls
    return found


def listens(url: str) -> bool:
    address = urlsplit(url)
    ports = {"postgres": 5432, "postgresql": 5432, "redis": 6379, "amqp": 5672}
    try:
        with socket.create_connection((address.hostname or "", address.port or ports[address.scheme]), timeout=2):
            return True
    except (OSError, KeyError):
        return False


@contextmanager
def running(
    variants: Mapping[str, Mapping[str, str]], web: str = "uvicorn", **environment: str
) -> Iterator[list[Target]]:
    with ExitStack() as exits:
        targets = []
        for name, urls in variants.items():
            keys = {"SECRET_KEY": secrets.token_urlsafe(50), "MASTER_KEY": secrets.token_urlsafe(32)}
            raised = {"OUTBOUND_ALLOW": "127.0.0.0/8", "STREAMS_PER_CALLER": "10000"}
            stack = exits.enter_context(closing(Stack(services=urls, web=web, **raised, **keys, **environment)))
            stack.start()
            targets.append(Target.of(name, stack))
        yield targets
