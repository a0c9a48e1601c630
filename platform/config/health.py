"""`/healthz` and `/readyz`, for orchestrators and load balancers."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from celery import current_app
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse

import db

TIMEOUT_SECONDS = 4.0
_migrated = False


async def healthz(request: HttpRequest) -> JsonResponse:
    """The process is alive."""
    return JsonResponse({"status": "ok"})


async def readyz(request: HttpRequest) -> JsonResponse:
    """200, or 503 with the services that are missing."""
    checks = {"database": db.run(check_database)}
    if not settings.CELERY_BROKER_URL.startswith("memory://"):
        checks["broker"] = asyncio.to_thread(check_broker)
    found = await asyncio.gather(
        *(asyncio.wait_for(check, TIMEOUT_SECONDS) for check in checks.values()), return_exceptions=True
    )
    parts = {
        name: "ok" if result is None else public_message(result) for name, result in zip(checks, found, strict=True)
    }
    ready = all(part == "ok" for part in parts.values())
    status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
    return JsonResponse({"status": "ok" if ready else "not ready", **parts}, status=status)


class NotMigrated(Exception):
    """Migrations are missing. Run ./manage.py migrate"""

    def __str__(self) -> str:
        return self.__doc__ or ""


def check_database() -> None:
    """Raises if it cannot be reached, NotMigrated if migrations are missing."""
    global _migrated
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    if not _migrated:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            raise NotMigrated
        _migrated = True


def check_broker() -> None:
    """Raises if it cannot be reached."""
    with current_app.connection_for_write(connect_timeout=2) as broker:
        broker.ensure_connection(max_retries=1, timeout=2)


def public_message(problem: object) -> str:
    """A public text without internals."""
    return str(problem) if isinstance(problem, NotMigrated) else "cannot be reached"
