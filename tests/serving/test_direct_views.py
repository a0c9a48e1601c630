"""Waiting and streaming views hold no thread and no connection."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.test import override_settings
from django.urls import path

from apps.accounts.principals import ANONYMOUS
from apps.accounts.requests import bodies
from apps.engine.send import accept_and_publish, wait_until_settled
from apps.record import wire
from apps.record.reading import feed
from parley import db
from parley.serving.handlers import RequestGuard, handle_async, largest_body

pytestmark = pytest.mark.services("waiting views hold no connection of the pool, and hear by the channel layer")
begun = asyncio.Event()
ended: list[str] = []


async def waits(request: HttpRequest, context: str, task: str, after: int) -> HttpResponse:
    try:
        shown = await wait_until_settled(context, task, after, wire.load_task)
    finally:
        ended.append(context)
    return JsonResponse(shown)


async def streams(request: HttpRequest, context: str) -> StreamingHttpResponse:
    async def lines() -> AsyncGenerator[str]:
        try:
            async with aclosing(feed.follow(context)) as batches:
                async for events in batches:
                    for event in events:
                        yield f"{event.index} {event.type}\n"
        finally:
            ended.append(context)

    return StreamingHttpResponse(lines())


async def hangs(request: HttpRequest) -> HttpResponse:
    begun.set()
    await asyncio.Event().wait()
    raise AssertionError


async def fails(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("the password is swordfish")


async def size(request: HttpRequest) -> HttpResponse:
    body = await bodies.read(request, ANONYMOUS, settings.MAX_REQUEST_BYTES)
    return JsonResponse({"bytes": len(body), "method": request.method})


urlpatterns = [
    path("a2a/waits/<uuid:context>/<uuid:task>/<int:after>", waits),
    path("a2a/streams/<uuid:context>", streams),
    path("a2a/hangs", hangs),
    path("a2a/fails", fails),
    path("other/fails", fails),
    path("a2a/size", size),
]


@pytest.fixture(autouse=True)
def _urls():
    with override_settings(ROOT_URLCONF=__name__):
        ended.clear()
        yield


def request_to(
    address: str, handler: Any = handle_async, *, method: str = "GET", **headers: str
) -> ApplicationCommunicator:
    scope = {
        "type": "http",
        "method": method,
        "path": address,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()],
    }
    return ApplicationCommunicator(RequestGuard(handler, largest_body), scope)


async def answered(
    address: str, handler: Any = handle_async, *, method: str = "GET", body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    communicator = request_to(address, handler, method=method, **headers)
    await communicator.send_input({"type": "http.request", "body": body})
    start = await communicator.receive_output(5)
    chunks = []
    while True:
        message = await communicator.receive_output(5)
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    await communicator.wait(5)
    names = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return start["status"], names, b"".join(chunks)


@asynccontextmanager
async def opened(addresses: list[str]) -> AsyncIterator[list[ApplicationCommunicator]]:
    communicators = [request_to(address) for address in addresses]
    for communicator in communicators:
        await communicator.send_input({"type": "http.request", "body": b""})
    yield communicators
    for communicator in communicators:
        await communicator.send_input({"type": "http.disconnect"})
    for communicator in communicators:
        await communicator.wait(5)


def server_connections() -> int:
    """Connections to this test database, as PostgreSQL counts them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
async def test_waiting_callers_hold_no_thread_or_connection(ada, echo, said):
    receipt = await db.run(accept_and_publish, ada.principal, echo, said())
    addresses = [f"/a2a/streams/{receipt.context}"] * 100
    addresses += [f"/a2a/waits/{receipt.context}/{receipt.task}/{receipt.index}"] * 100
    postgres = connection.vendor == "postgresql"
    threads = threading.active_count()
    connections = await db.run(server_connections) if postgres else 0
    async with opened(addresses) as requests:
        for stream in requests[:100]:
            await stream.receive_output(10)
            assert (await stream.receive_output(10))["body"].startswith(b"1 user_message")
        bridge_may_add = 6
        assert threading.active_count() - threads <= bridge_may_add
        if postgres:
            assert await db.run(server_connections) - connections <= bridge_may_add
    assert len(ended) == 200


@pytest.mark.parametrize(("address", "code"), [("/a2a/fails", -32603), ("/other/fails", 500)])
async def test_unexpected_errors_hide_their_inside(address, code):
    status, headers, body = await answered(address)
    assert status == 500
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["error"]["code"] == code
    assert b"swordfish" not in body
    assert b"Traceback" not in body
    status, _, body = await answered("/a2a/nobody/tasks/1")
    assert (status, json.loads(body)["error"]["code"]) == (404, 404)


async def test_head_gets_headers_and_foreign_hosts_nothing():
    _, said, body = await answered("/a2a/size")
    assert int(said["content-length"]) == len(body)
    status, headers, body = await answered("/a2a/size", method="HEAD")
    assert (status, headers["content-type"], body) == (200, "application/json", b"")
    assert (await answered("/a2a/size", host="evil.example"))[0] == 400


async def test_request_cut_off_by_stop_may_be_repeated(monkeypatch):
    monkeypatch.setattr(f"{__name__}.begun", asyncio.Event())
    communicator = request_to("/a2a/hangs")
    await communicator.send_input({"type": "http.request", "body": b""})
    await begun.wait()
    communicator.future.cancel()  # as uvicorn does after its time for a graceful stop
    start, body = await communicator.receive_output(5), await communicator.receive_output(5)
    assert start["status"] == 503
    assert (b"Retry-After", b"1") in start["headers"]
    assert "again" in json.loads(body["body"])["error"]["message"]


async def test_endless_body_is_refused_while_coming():
    communicator = request_to("/a2a/size", method="POST")
    with override_settings(MAX_REQUEST_BYTES=1000):
        for _ in range(3):
            await communicator.send_input({"type": "http.request", "body": b"x" * 500, "more_body": True})
        assert (await communicator.receive_output(5))["status"] == 413
