"""A trailing slash never decides between a page and a 404."""

import re
import uuid
from collections.abc import Iterable, Iterator
from http import HTTPStatus

import httpx
import pytest
from django.urls import Resolver404, URLPattern, URLResolver, get_resolver, resolve
from django.urls.resolvers import RoutePattern

from parley.asgi import application

SAMPLES = {"uuid": str(uuid.uuid4()), "int": "5", "slug": "a-slug"}


def routes(patterns: Iterable[URLPattern | URLResolver], before: str = "/") -> Iterator[str]:
    """A sample of each address; regular expressions (A2A's, with `/?` at their ends) have none."""
    for one in patterns:
        if not isinstance(one.pattern, RoutePattern):
            continue
        address = before + re.sub(
            r"<(?:(\w+):)?\w+>", lambda found: SAMPLES.get(found[1], "some-words"), str(one.pattern)
        )
        if isinstance(one, URLResolver):
            yield from routes(one.url_patterns, address)
        else:
            yield address


ADDRESSES = sorted(set(routes(get_resolver().url_patterns)) - {"/"})


def other(address: str) -> str:
    return address.removesuffix("/") if address.endswith("/") else f"{address}/"


def is_accepted(address: str) -> bool:
    """Does the address have a view of its own, the one of its other form?"""
    try:
        return resolve(address).func == resolve(other(address)).func
    except Resolver404:
        return False


def test_every_address_is_found_in_both_forms(ada, client):
    ada.is_staff = ada.is_superuser = True
    ada.save()
    client.force_login(ada)
    assert len(ADDRESSES) > 200
    lost = {}
    for address in ADDRESSES:
        answer = None if is_accepted(address) else client.get(other(address), query_params={"q": "ä b"})
        if answer and (answer.status_code, answer.get("Location")) != (308, f"{address}?q=%C3%A4+b"):
            lost[address] = answer.status_code
    assert lost == {}
    answer = client.post("/sign-in/?next=/agents", {"username": "ada@example.org"})
    assert (answer.status_code, answer["Location"]) == (HTTPStatus.PERMANENT_REDIRECT, "/sign-in?next=/agents")
    for nowhere in ("/nowhere", "/nowhere/", "/agents//", "/agents/a%00/"):
        assert client.get(nowhere).status_code == HTTPStatus.NOT_FOUND, nowhere
    # A view that finds nothing, and the views of all other addresses, are no reason to try the other form
    for nothing in ("/admin/remote/remoteagent/of/0/", "/admin/nothing", "/api/v1", "/api/v1/nothing/", "/a2a/x//"):
        assert client.post(nothing).status_code == HTTPStatus.NOT_FOUND, nothing


@pytest.mark.django_db(transaction=True)
async def test_programs_addresses_are_found_in_both_forms():
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answer = await http.get("/.well-known/jwks.json/?a=1")
        assert (answer.status_code, answer.headers["Location"]) == (308, "/.well-known/jwks.json?a=1")
        assert (await http.get("/.well-known/nothing/")).status_code == HTTPStatus.NOT_FOUND
        for address in ("/a2a/nobody/", "/api/v1/sessions/"):
            assert not (await http.post(address)).is_redirect, address
