"""Signing in, and what needs it."""

from django.test import Client

from apps.web.home import MOST_FAILURES

SIGN_IN = "/sign-in"


def sign_in(client, password, email="ada@example.org", **more):
    return client.post(SIGN_IN, {"username": email, "password": password, **more})


def test_the_right_password_leads_to_the_page_that_was_asked_for_and_nowhere_else(client, ada):
    answer = sign_in(client, "correct horse")
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert sign_in(client, "correct horse", "ADA@example.org").status_code == 302
    assert sign_in(client, "correct horse", next="/agents")["Location"] == "/agents"
    for elsewhere in ["https://evil.example/", "//evil.example", "javascript:alert(1)"]:
        assert sign_in(client, "correct horse", next=elsewhere)["Location"] == "/", elsewhere


def test_a_wrong_password_and_an_address_that_nobody_has_are_answered_in_the_same_words(client, ada):
    answer = sign_in(client, "wrong")
    assert answer.status_code == 200
    assert "The e-mail address or the password is not right." in answer.text
    assert 'value="ada@example.org"' in answer.text
    assert "The e-mail address or the password is not right." in sign_in(client, "wrong", "eve@example.org").text


def test_after_many_wrong_passwords_even_the_right_one_has_to_wait(client, ada):
    for _ in range(MOST_FAILURES):
        sign_in(client, "wrong")
    assert "Wait ten minutes" in sign_in(client, "correct horse").text


def test_somebody_elses_wrong_passwords_keep_nobody_out(client, ada, bob):
    for _ in range(MOST_FAILURES):
        sign_in(client, "wrong", "bob@example.org")
    assert sign_in(client, "correct horse").status_code == 302


def test_signing_out_takes_a_form(ada_browser, ada):
    assert ada_browser.get("/sign-out").status_code == 405
    assert ada_browser.post("/sign-out").status_code == 302
    assert ada_browser.get("/")["Location"] == "/sign-in?next=/"
    client = Client(enforce_csrf_checks=True)
    answer = sign_in(client, "correct horse")
    assert answer.status_code == 403
    assert "load the page again" in answer.text


def test_a_piece_of_a_page_is_not_the_sign_in(client, ada):
    answer = client.get("/inbox", headers={"HX-Request": "true"}, follow=True)
    assert (answer.redirect_chain[-1][0], answer.status_code) == ("/sign-in?next=/inbox", 401)
