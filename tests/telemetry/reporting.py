"""Makes errors in a process with SENTRY_DSN: in a job, in an agent's code, on a page and in an async view."""

import asyncio
import logging

import django

django.setup()

import httpx  # noqa: E402
import sentry_sdk  # noqa: E402
from celery import current_app, shared_task  # noqa: E402
from django.conf import settings  # noqa: E402
from django.test import override_settings  # noqa: E402
from structlog.contextvars import bound_contextvars  # noqa: E402

from apps.agents.models import Agent  # noqa: E402
from apps.engine.turns import handlers  # noqa: E402
from parley import asgi  # noqa: E402
from tests.telemetry.test_errors import CANARY  # noqa: E402


@shared_task(name="tests.breaking")
def breaking(given: str) -> None:
    raise ValueError(given)


def fail(what: str, number: int = 0) -> None:
    body = f"{what} {CANARY}"
    if number:
        fail(what, number - 1)
    raise LookupError(body)


async def call() -> None:
    transport = httpx.ASGITransport(app=asgi.application, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        headers = {"Authorization": f"Bearer {CANARY}", "Cookie": f"sessionid={CANARY}"}
        await client.post(f"/shared/{CANARY}?q={CANARY}", content=CANARY, headers=headers)  # there is no table


if __name__ == "__main__":
    current_app.loader.import_default_modules()  # as a worker does before its first job
    breaking.apply(args=[CANARY])
    try:
        fail("agent")
    except LookupError as error:
        with bound_contextvars(run="run-1", task="task-1", agent="echo"):
            handlers.log_error(Agent(slug="echo"), error)
    try:
        fail("engine", 2)
    except LookupError:
        logging.getLogger("parley.engine").exception("run %s could not be recorded", "run-2")
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    with override_settings(STORAGES={**settings.STORAGES, "staticfiles": plain}):  # nothing was collected
        asyncio.run(call())
    sentry_sdk.flush(10)
