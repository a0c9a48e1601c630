"""Signing in, and what needs it."""

from django.test import Client

SIGN_IN = "/sign-in"
MOST_FAILURES = 10  # as ACCOUNT_RATE_LIMITS says


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
    assert (problem := answer.context["form"].non_field_errors())
    assert 'value="ada@example.org"' in answer.text
    assert sign_in(client, "wrong", "eve@example.org").context["form"].non_field_errors() == problem


def test_after_many_wrong_passwords_even_the_right_one_has_to_wait(client, ada):
    for _ in range(MOST_FAILURES):
        sign_in(client, "wrong")
    assert sign_in(client, "correct horse").context["form"].has_error("__all__", "too_many_login_attempts")


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
    assert "reload the page" in answer.text


def test_a_piece_of_a_page_is_not_the_sign_in(client, ada):
    answer = client.get("/inbox", headers={"HX-Request": "true"}, follow=True)
    assert (answer.redirect_chain[-1][0], answer.status_code) == ("/sign-in?next=/inbox", 401)


def test_the_page_names_the_file_of_the_first_login_until_somebody_has_signed_in(client, ada, settings, tmp_path):
    def is_named():
        return "first-login.txt" in client.get(SIGN_IN).text

    settings.DATA_DIR = tmp_path
    assert not is_named(), "no first login was made"
    (tmp_path / "first-login.txt").write_text("password of ada@example.org: correct horse")
    page = client.get(SIGN_IN).text
    assert is_named()
    assert "correct horse" not in page
    assert str(tmp_path) not in page
    sign_in(client, "correct horse")
    client.logout()
    assert not is_named()
