"""Security headers of every page, and the origins that may open a WebSocket."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.template.context_processors import csp
from django.test import Client, RequestFactory

from config.handlers import is_same_origin
from config.middleware import CSPMiddleware


@pytest.mark.django_db
def test_pages_are_framed_and_referred_to_by_ourselves_alone_and_nothing_is_guessed_or_looked_up(
    client: Client,
) -> None:
    answer = client.get("/admin/login/")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "SAMEORIGIN"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["X-DNS-Prefetch-Control"] == "off"
    for cookie in answer.cookies.values():
        assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
    assert answer.cookies


def policy(path: str) -> str:
    def page(request: HttpRequest) -> HttpResponse:
        return HttpResponse(csp(request)["csp_nonce"])

    answer = CSPMiddleware(page)(RequestFactory().get(path))
    return answer.headers["Content-Security-Policy"].replace(answer.content.decode(), "the nonce")


def test_a_script_runs_by_the_nonce_of_its_page_alone() -> None:
    assert "script-src 'nonce-the nonce' 'strict-dynamic';" in policy("/")
    assert "object-src 'none'" in policy("/")


def test_the_policy_of_the_admin_pages_is_theirs_alone() -> None:
    assert "unsafe" not in policy("/agents")
    assert "'unsafe-eval'" in policy("/admin/")


def test_only_a_page_of_this_server_may_open_a_websocket(settings: Any) -> None:
    own = [
        ("http://localhost:8000", "localhost:8000"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("https://LOCALHOST:8000", "localhost:8000"),
    ]
    foreign = [
        ("http://localhost:9000", "localhost:8000"),
        ("http://evil.example", "localhost:8000"),
        ("http://evil.example", "evil.example"),
        ("http://user@localhost:8000", "localhost:8000"),
        ("null", "localhost:8000"),
        ("", "localhost:8000"),
        ("file://", "localhost:8000"),
        ("ftp://localhost:8000", "localhost:8000"),
    ]
    assert [pair for pair in own if not is_same_origin(*pair)] == []
    assert [pair for pair in foreign if is_same_origin(*pair)] == []
    settings.PUBLIC_BASE_URL = "https://parley.example.org"
    assert is_same_origin("https://parley.example.org", "10.0.0.7:8000"), "whatever a proxy names"
