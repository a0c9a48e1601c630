"""Error pages obey the Content-Security-Policy that they are sent with."""

import re
from html.parser import HTMLParser

import pytest
from django.contrib import admin
from django.contrib.staticfiles.finders import get_finders
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import include, path, reverse

from parley import urls
from parley.serving.static_files import StaticFiles

pytestmark = pytest.mark.django_db


def failing(request: HttpRequest, kind: str) -> HttpResponse:
    raise {"400": BadRequest, "403": PermissionDenied, "500": RuntimeError}[kind]("broken")


handler400, handler500 = urls.handler400, urls.handler500
urlpatterns = [
    path("fails/<str:kind>", failing),
    path("admin/fails/<str:kind>", failing),
    path("admin/", admin.site.urls),
    path("", include("parley.urls")),
]


class Violations(HTMLParser):
    """Inline scripts, styles and handlers that a policy does not allow."""

    def __init__(self, policy: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split("; ") if rule}

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        scripts, styles = (self._rules.get(f"{kind}-src", ["'unsafe-inline'"]) for kind in ("script", "style"))
        nonce = f"'nonce-{given.get('nonce')}'"
        runs = tag == "script" and given.get("type") != "application/json"
        if runs and nonce not in scripts and "'unsafe-inline'" not in scripts:
            by_address = "src" in given and "'self'" in scripts and "'strict-dynamic'" not in scripts
            if not by_address:
                self.found.append(f"<script {given}>")
        if (tag == "style" or "style" in given) and "'unsafe-inline'" not in styles:
            self.found.append(f"<{tag} {given}>")
        if any(name.startswith("on") for name in given) and "'unsafe-inline'" not in scripts:
            self.found.append(f"<{tag} {given}>")


def violations(answer: HttpResponse) -> list[str]:
    parser = Violations(answer.headers.get("Content-Security-Policy", ""))
    parser.feed(answer.content.decode())
    return parser.found


@pytest.fixture
def calls():
    with override_settings(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"]):
        yield Client(raise_request_exception=False, enforce_csrf_checks=True)


@pytest.mark.parametrize("place", ["", "admin/"])
def test_error_pages_run_what_they_bring(calls, place):
    for kind in ("400", "403", "404", "500"):
        answer = calls.get(f"/{place}nowhere/at/all" if kind == "404" and not place else f"/{place}fails/{kind}")
        assert answer.status_code in (int(kind), 500)
        assert "<html" in answer.content.decode()
        assert violations(answer) == [], kind


def test_refused_forms_and_hosts_run_what_they_bring(calls):
    for address in ("/sign-in", "/admin/login/"):
        answer = calls.post(address, {})  # a form that is out of date
        assert (answer.status_code, violations(answer)) == (403, [])
    answer = calls.get("/", headers={"host": "evil.example"})
    assert (answer.status_code, violations(answer)) == (400, [])


def test_the_page_of_a_failure_needs_no_database(calls, django_db_blocker):
    with django_db_blocker.block():  # type: ignore[attr-defined]
        answer = calls.get("/fails/500")
    assert (answer.status_code, violations(answer)) == (500, [])


def test_operators_pages_bring_all_that_they_run(admin_client):
    """Scripts with their nonce, and files that are collected."""
    collected = {path for finder in get_finders() for path, _ in finder.list(StaticFiles.ignore_patterns)}
    named = set(re.findall(r'"/static/([^"?#]+)"', admin_client.get("/admin/agents/agent/add/?kind=model").text))
    for model in admin.site._registry:
        base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        for name in ("changelist", "add"):
            page = admin_client.get(reverse(f"{base}_{name}"), follow=True)
            assert violations(page) == [], f"{base}_{name}"
            named |= set(re.findall(r'(?:src|href)="/static/([^"?#]+)"', page.text))
    assert len(named) > 10
    assert named <= collected
