"""Where operators need a second factor, one without it is answered as somebody who is no operator, at every address.

Their own pages, below /admin/, are in test_addresses.py.
"""

from __future__ import annotations

import re

import pytest
from django.test import override_settings
from django.urls import reverse

from apps.accounts.models import ApiKey, User
from tests.isolation.addresses import OPEN_TO_ALL, WITHOUT_IDS
from tests.isolation.asking import Answer, Browser, Caller, methods_at
from tests.isolation.test_addresses import FORM, NO_LISTS, OPERATORS_TOO, body_of, compare_all


@pytest.fixture(autouse=True)
def _operators_need_a_second_factor():
    with override_settings(MFA_FOR_OPERATORS=True):
        yield


@pytest.fixture(scope="module")
def operator(everybody):
    """With a password and a key, and without a second factor."""
    return next(one for one in everybody if one.name == "operator")


@pytest.fixture(scope="module")
def person(two):
    """As new as the operator, and no operator."""
    made = User.objects.create_user("plain@ouruniverse.example", "correct horse", name="Operator")
    browser = Browser()
    browser.force_login(made)
    return Caller("person", browser, ApiKey.issue(made, "ours")[1])


SHARED_WITH_OPERATORS = [one for one in OPEN_TO_ALL if OPERATORS_TOO.search(one.template)]


def test_what_operators_may_is_not_found(two, operator, theirs_unchanged):
    for address in SHARED_WITH_OPERATORS:
        compare_all(two, [operator], address)


ADDRESSES = [one for one in WITHOUT_IDS if one.template.strip("/") not in (*NO_LISTS, "sign-out", "healthz/stream")]


def test_operators_right_is_refused(two, operator, person):
    for address in ADDRESSES:
        for method in methods_at(address, operator, {}):
            about, body = f"{method} {address.path({})}", body_of(address, method)
            answer = operator.ask(method, address.path({}), body)
            assert two.theirs.mark not in answer.body, about
            if not is_led_to_second_factor(answer):
                assert said(answer) == said(person.ask(method, address.path({}), body)), about


def said(answer: Answer) -> tuple[int, str]:
    """Status, and where it leads without what is new each time."""
    return answer.status, re.sub(r"[0-9a-f-]{32,}|\d+", "…", answer.headers.get("Location", ""))


def is_led_to_second_factor(answer: Answer) -> bool:
    return answer.headers.get("Location", "").startswith(reverse("web:settings-security"))


def test_without_the_rule_operators_have_their_right(two, operator, person):
    """So that two callers who are alike anyway are noticed."""
    with override_settings(MFA_FOR_OPERATORS=False):
        assert operator.ask("GET", "/admin/").status == 200
        for method, path in (("GET", "/settings/models"), ("POST", "/settings/models/connect")):
            assert said(operator.ask(method, path, FORM)) != said(person.ask(method, path, FORM)), (method, path)
        assert two.theirs.mark in operator.ask("GET", "/inbox").body
