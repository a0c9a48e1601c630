"""Signing in: where it leads, what it refuses, and that nothing is to be seen without it."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.web.sign_in import FAILURES

SIGN_IN = "/sign-in"


def sign_in(client, password, email="ada@example.org", **more):
    return client.post(SIGN_IN, {"username": email, "password": password, **more})


def test_the_right_password_leads_to_the_sessions(client, ada):
    answer = sign_in(client, "correct horse")
    assert (answer.status_code, answer["Location"]) == (302, "/")


def test_the_address_may_be_written_in_any_case(client, ada):
    assert sign_in(client, "correct horse", "ADA@example.org").status_code == 302


def test_a_wrong_password_says_so_and_keeps_the_address(client, ada):
    answer = sign_in(client, "wrong")
    assert answer.status_code == 200
    assert "The e-mail address or the password is not right." in answer.text
    assert 'value="ada@example.org"' in answer.text


def test_an_address_that_nobody_has_is_answered_in_the_same_words(client, ada):
    assert "The e-mail address or the password is not right." in sign_in(client, "wrong", "eve@example.org").text


def test_after_many_wrong_passwords_even_the_right_one_has_to_wait(client, ada):
    for _ in range(FAILURES):
        sign_in(client, "wrong")
    assert "Wait ten minutes" in sign_in(client, "correct horse").text


def test_somebody_elses_wrong_passwords_keep_nobody_out(client, ada, bob):
    for _ in range(FAILURES):
        sign_in(client, "wrong", "bob@example.org")
    assert sign_in(client, "correct horse").status_code == 302


def test_the_page_that_was_asked_for_is_shown_afterwards(client, ada):
    assert sign_in(client, "correct horse", next="/agents")["Location"] == "/agents"


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_nobody_is_led_elsewhere(client, ada, elsewhere):
    assert sign_in(client, "correct horse", next=elsewhere)["Location"] == "/"


def test_signing_out_takes_a_form(ada_browser):
    assert ada_browser.get("/sign-out").status_code == 405
    assert ada_browser.post("/sign-out").status_code == 302
    assert ada_browser.get("/")["Location"] == "/sign-in?next=/"


@pytest.mark.parametrize("name", ["home", "agents"])
def test_pages_ask_to_sign_in(client, db, name):
    address = reverse(f"web:{name}")
    assert client.get(address)["Location"] == f"/sign-in?next={address}"


def test_a_form_without_its_token_is_told_what_to_do(ada):
    client = Client(enforce_csrf_checks=True)
    answer = sign_in(client, "correct horse")
    assert answer.status_code == 403
    assert "load the page again" in answer.text


def test_a_piece_of_a_page_is_not_the_sign_in(client, ada):
    answer = client.get("/inbox", headers={"HX-Request": "true"}, follow=True)
    assert (answer.redirect_chain[-1][0], answer.status_code) == ("/sign-in?next=/inbox", 401)
