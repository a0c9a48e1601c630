"""A page's middleware and its view are one piece of work for the request's thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from asgiref.sync import SyncToAsync
from asgiref.testing import ApplicationCommunicator
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path

from config.pages import PagesHandler

seen: list[str] = []


def plain(request: HttpRequest) -> HttpResponse:
    seen.append(threading.current_thread().name)
    return HttpResponse("plain")


async def awaits(request: HttpRequest) -> HttpResponse:
    seen.append(threading.current_thread().name)
    return HttpResponse("awaited")


urlpatterns = [path("plain", plain), path("awaits", awaits)]


@pytest.fixture(autouse=True)
def _these_views() -> Any:
    seen.clear()
    with override_settings(ROOT_URLCONF=__name__):
        yield


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was handed to a thread."""
    handed: list[Any] = []
    call = SyncToAsync.__call__

    async def counted(hop: Any, *args: Any, **kwargs: Any) -> Any:
        handed.append(hop.func)
        return await call(hop, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "__call__", counted)
    return handed


async def asked(address: str) -> tuple[int, dict[bytes, bytes], bytes]:
    scope = {
        "type": "http",
        "method": "GET",
        "path": address,
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    page = ApplicationCommunicator(PagesHandler(), scope)
    await page.send_input({"type": "http.request", "body": b"", "more_body": False})
    start = await page.receive_output(10)
    body = await page.receive_output(10)
    await page.wait(10)
    return start["status"], dict(start["headers"]), body["body"]


async def test_it_goes_to_the_thread_once_for_all_middleware_and_the_view(hops: list[Any]) -> None:
    status, headers, body = await asked("/plain")
    assert (status, body) == (200, b"plain")
    assert {b"Content-Security-Policy", b"X-Frame-Options", b"X-Content-Type-Options"} <= headers.keys()
    assert [hop.__name__ for hop in hops] == ["sync_send", "get_response", "close"]  # Django's signal, this, the end
    assert seen != [threading.current_thread().name]


async def test_a_view_that_awaits_is_on_the_servers_loop() -> None:
    assert (await asked("/awaits"))[::2] == (200, b"awaited")
    assert seen == [threading.current_thread().name]
