"""`python -m benchmarks.access [--profile WAY]`: processor time to find a caller and what they may do, by way.

It calls the functions that requests go through, in one process and thread, on PostgreSQL (`DATABASE_URL`), with a
database of its own. The time of the database's own process is not in it.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import secrets
import sys
import time
from collections.abc import Callable

from benchmarks import variants
from tests.stack import prepared

CALLS, WARM = 2_000, 100
ADDRESS = "127.0.0.1"
AGENT = "echo"


def main(arguments: list[str]) -> None:
    urls = next(urls for name, urls in variants.services().items() if name != "embedded")
    keys = {"SECRET_KEY": secrets.token_urlsafe(50), "MASTER_KEY": secrets.token_urlsafe(32)}
    with prepared(urls, **keys) as stack:
        stack.prepare()
        print(stack.python("-m", "benchmarks.access", "here", *arguments).stdout)


def here(profiled: str = "") -> None:
    """In this installation."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
    django.setup()
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    for name, call in ways().items():
        for _ in range(WARM):
            call()
        with CaptureQueriesContext(connection) as queries:
            call()
        count = len(queries)
        began, worked = time.perf_counter(), time.process_time()
        for _ in range(CALLS):
            call()
        worked, took = time.process_time() - worked, time.perf_counter() - began
        print(f"| {name} | {count} | {worked / CALLS * 1000:.2f} | {took / CALLS * 1000:.2f} |")
        if profiled and profiled in name:
            profile = cProfile.Profile()
            profile.runcall(lambda call=call: [call() for _ in range(CALLS)])
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def ways() -> dict[str, Callable[[], object]]:
    from django.test import Client as Browser
    from django.test import RequestFactory
    from django.urls import resolve

    from apps.a2a.authentication import authenticate
    from apps.accounts.models import ApiKey, User
    from apps.accounts.requests.authentication import session_user
    from apps.conversations.api.sessions import Sessions
    from apps.web.roles import role_refusal
    from examples.showcase import DEMO

    person = User.objects.get(email=DEMO)
    key = f"Bearer {ApiKey.issue(person, 'benchmark')[1]}"
    token = f"Bearer {_token(person)}"
    browser, make, page = Browser(), RequestFactory(), resolve(f"/agents/{AGENT}/messages")
    browser.force_login(person)

    def a2a(authorization: str) -> Callable[[], object]:
        asked = RequestFactory().get("/", REMOTE_ADDR=ADDRESS)
        return lambda: authenticate(authorization, AGENT, asked)

    def api(authorization: str) -> Callable[[], object]:
        plain = make.get("/api/v1/sessions", headers={"Authorization": authorization})

        def admit() -> None:
            endpoint = Sessions(args=(), kwargs={})
            endpoint.request = endpoint.initialize_request(plain)
            endpoint.initial(endpoint.request)

        return admit

    def browse() -> None:
        request = make.get("/")
        request.COOKIES = {name: morsel.value for name, morsel in browser.cookies.items()}
        user = session_user(request)
        assert user is not None
        assert not role_refusal(user.principal, page)

    return {
        "A2A, API key": a2a(key),
        "A2A, OAuth token": a2a(token),
        "client API, API key": api(key),
        "client API, OAuth token": api(token),
        "page, session cookie": browse,
    }


def _token(person: object) -> str:
    from allauth.idp.oidc.models import Client, Token

    from apps.accounts.clients.oauth import hash_of
    from apps.accounts.principals import READ, WRITE

    client = Client.objects.create(name="benchmark", owner=person)
    text = "t" * 86
    token = Token(client=client, user=person, type="at", hash=hash_of(text))
    token.set_scopes([READ, WRITE])
    token.save()
    return text


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["here", *profiled]:
            here(*profiled)
        case ["--profile", way]:
            main([way])
        case _:
            main([])
