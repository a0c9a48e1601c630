"""No address of an admin list or row is an error of the server, whatever its values are."""

from collections.abc import Iterator
from itertools import cycle
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.contrib import admin
from django.db.models import DateField
from django.urls import reverse

pytestmark = [pytest.mark.django_db, pytest.mark.services("databases refuse other values")]

MANY = "9" * 20
ABSURD = cycle((MANY, "a\0b"))
VALUES = cycle((("", MANY), ("", "a\0b"), ("__in", MANY), ("__in", "1,a\0b")))  # by turns: a page is dear
VIEWS = cycle(("change", "history", "delete"))
PARAMETERS = cycle((("p", "e"), ("o", "_popup"), ("q", "_to_field"), ("before", "_facets")))
OF_DATES = (("year", "9999"), ("lt", "0001-01-01 00:00:00+23:00"), ("year", MANY), ("range", "x"))


def test_absurd_values_are_no_server_error(admin_client, monkeypatch):
    admin_client.raise_request_exception = False
    index = admin_client.get(reverse("admin:index"))  # loads the pages
    menu = admin.site.each_context(index.wsgi_request)
    monkeypatch.setattr(admin.site, "each_context", lambda _: menu)  # a third of each page's time, and the same
    assert admin.site._registry
    failed = [one for each in admin.site._registry.items() for one in addresses(*each) if fails(admin_client, one)]
    assert not failed


def fails(client: Any, address: str) -> bool:
    return bool(client.get(address).status_code >= 500)


def addresses(model: Any, page: Any) -> Iterator[str]:
    base = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    yield from (f"{base}?{urlencode({name: value})}" for name, value in queries(model, page))
    yield f"{base}?{urlencode(dict.fromkeys(next(PARAMETERS), next(VALUES)[1]))}"
    yield f"{base}{quote(next(ABSURD))}/{next(VIEWS)}/"


def queries(model: Any, page: Any) -> Iterator[tuple[str, str]]:
    filters = [one[0] if isinstance(one, tuple) else one for one in page.list_filter]
    names = [one if isinstance(one, str) else getattr(one, "parameter_name", "") for one in filters]
    names += getattr(page, "link_filters", ())
    yield from ((f"{name}{by}", value) for name in filter(None, names) for by, value in [next(VALUES)])
    dates = [field.name for field in model._meta.fields if isinstance(field, DateField)]
    yield from ((f"{name}__{by}", value) for name, (by, value) in zip(dates, cycle(OF_DATES)))
