"""What every page says to the browser about what it may do."""

from __future__ import annotations

import urllib.request
from email.message import Message

import pytest
from django.http import HttpRequest, HttpResponse
from django.template.context_processors import csp
from django.test import RequestFactory

from config.policy import PolicyMiddleware
from tests.stack import Stack


def headers(server: Stack, path: str) -> Message:
    with urllib.request.urlopen(f"{server.url}{path}", timeout=20) as answer:
        return answer.headers


@pytest.mark.parametrize("path", ["/admin/login/", "/healthz"])
def test_nothing_is_guessed_from_content(server: Stack, path: str) -> None:
    assert headers(server, path)["X-Content-Type-Options"] == "nosniff"


def test_pages_may_only_be_framed_and_referred_to_by_ourselves(server: Stack) -> None:
    sent = headers(server, "/admin/login/")
    assert sent["X-Frame-Options"] == "SAMEORIGIN"
    assert sent["Referrer-Policy"] == "same-origin"


def test_nobody_is_asked_where_links_lead_to_before_they_are_followed(server: Stack) -> None:
    assert headers(server, "/admin/login/")["X-DNS-Prefetch-Control"] == "off"


def test_cookies_are_out_of_reach_for_scripts_and_other_sites(server: Stack) -> None:
    cookie = headers(server, "/admin/login/")["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie


def policy(path: str) -> str:
    def page(request: HttpRequest) -> HttpResponse:
        return HttpResponse(csp(request)["csp_nonce"])

    answer = PolicyMiddleware(page)(RequestFactory().get(path))
    return answer.headers["Content-Security-Policy"].replace(answer.content.decode(), "the nonce")


def test_a_script_runs_by_the_nonce_of_its_page_alone() -> None:
    assert "script-src 'nonce-the nonce' 'strict-dynamic';" in policy("/")
    assert "object-src 'none'" in policy("/")


def test_the_policy_of_the_admin_pages_is_theirs_alone() -> None:
    assert "unsafe" not in policy("/agents")
    assert "'unsafe-eval'" in policy("/admin/")
