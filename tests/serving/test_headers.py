"""Security headers of every address, and the origins that may open a WebSocket."""

import httpx
import pytest
from django.http import HttpRequest, HttpResponse
from django.template.context_processors import csp
from django.test import RequestFactory

from parley.asgi import application
from parley.serving.handlers import ASYNC_PATH, PERMISSIONS, RequestGuard, is_same_origin, largest_body
from parley.serving.middleware import CSPMiddleware
from tests.serving.test_addresses import ADDRESSES

ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": PERMISSIONS,
}


@pytest.mark.django_db
def test_pages_guess_and_look_up_nothing(client):
    answer = client.get("/sign-in")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["X-DNS-Prefetch-Control"] == "off"
    for cookie in answer.cookies.values():
        assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
    assert answer.cookies


OTHERS = ("/healthz/stream", "/diagrams")  # a stream, and a frame of our pages
FAMILIES = {tuple(address.split("/")[1:3]): address for address in ADDRESSES if address not in OTHERS}
PROGRAMS = ("/a2a", "/a2a/echo", "/a2a/echo/message:send", "/a2a/nobody/tasks/1", "/.well-known/agent-card.json", "/no")


@pytest.mark.django_db(transaction=True)
async def test_all_addresses_have_security_headers_once():
    transport = httpx.ASGITransport(app=RequestGuard(application, largest_body))  # twice: nothing is repeated
    wrong = {}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        for address in ("/", *FAMILIES.values(), *PROGRAMS):
            answer = await http.get(address)
            headers = {name: answer.headers.get_list(name) for name in ALWAYS}
            if headers != {name: [value] for name, value in ALWAYS.items()}:
                wrong[address] = headers
            elif "frame-ancestors 'none'" not in answer.headers["Content-Security-Policy"]:
                wrong[address] = answer.headers["Content-Security-Policy"]
            elif answer.headers["Referrer-Policy"] not in ("same-origin", "no-referrer"):
                wrong[address] = answer.headers["Referrer-Policy"]
    assert wrong == {}


async def test_https_alone_is_said_by_every_response(settings):
    settings.SECURE_HSTS_SECONDS, settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = 31_536_000, True
    transport = httpx.ASGITransport(app=RequestGuard(application, largest_body))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        for address in ("/healthz", "/static/nothing.js", "/api/v1/nothing", "/nowhere"):
            answer = await http.get(address)
            assert answer.headers.get_list("Strict-Transport-Security") == ["max-age=31536000; includeSubDomains"]


def test_pages_are_redirected_to_https_programs_not(settings, client):
    """Programs would go on sending their key in the open, without noticing."""
    settings.SECURE_SSL_REDIRECT = True
    answer = client.get("/sign-in?next=/agents", headers={"host": "localhost"})
    assert (answer.status_code, answer["Location"]) == (301, "https://localhost/sign-in?next=/agents")
    for address in ("/healthz", "/api/v1/agents", "/a2a", "/.well-known/agent-card.json", "/metrics"):
        assert ASYNC_PATH.match(address), "no middleware of pages"


def policy(path: str) -> str:
    def page(request: HttpRequest) -> HttpResponse:
        return HttpResponse(csp(request)["csp_nonce"])

    answer = CSPMiddleware(page)(RequestFactory().get(path))
    return answer.headers["Content-Security-Policy"].replace(answer.content.decode(), "the nonce")


def test_scripts_run_by_their_pages_nonce():
    assert "script-src 'nonce-the nonce' 'strict-dynamic';" in policy("/")
    assert "object-src 'none'" in policy("/")
    assert "unsafe" not in policy("/agents")
    assert "'unsafe-eval'" in policy("/admin/")


def test_only_own_pages_open_websockets(settings):
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
