"""A person's settings: profile, password, appearance, notifications and API keys."""

import re

import pytest

from apps.accounts import quotas
from apps.accounts.authentication import BadCredentials, api_key_principal
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import READ, SCOPES, WRITE
from apps.web.settings.sections import SECTIONS

PASSWORD = "correct horse"
MOST_FAILURES = 10  # as ACCOUNT_RATE_LIMITS says
NEW_PASSWORD = "a longer staple battery"
KEY = {"name": "laptop", "scopes": [READ], "days": "30", "current_password": PASSWORD}


@pytest.fixture(autouse=True)
def fresh_counts(db, monkeypatch):
    monkeypatch.setattr(quotas, "key_counter", quotas.RequestCounter())


def key_in(answer) -> str:
    return re.search(r"parley_[0-9a-f]{12}_[\w-]+", answer.text).group()


def test_every_section_has_an_address_for_its_person_alone(client, ada_browser):
    assert ada_browser.get("/settings")["Location"] == "/settings/profile"
    for section in SECTIONS:
        page = ada_browser.get(f"/settings/{section}")
        assert page.status_code == 200
        assert 'aria-current="page"' in page.text
        assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
        assert client.get(f"/settings/{section}")["Location"].startswith("/sign-in")
    assert ada_browser.get("/credentials/")["Location"] == "/settings/credentials"


class TestProfile:
    VALUES = {"name": "Ada L", "email": "ada@example.org", "time_zone": "Asia/Tokyo", "current_password": ""}

    def test_name_and_time_zone_are_saved_and_pages_show_times_there(self, ada, ada_browser):
        assert ada_browser.post("/settings/profile", self.VALUES).status_code == 302
        ada.refresh_from_db()
        assert (ada.name, ada.time_zone, ada.email) == ("Ada L", "Asia/Tokyo", "ada@example.org")
        ApiKey.issue(ada, "laptop")
        ApiKey.objects.update(created_at="2026-01-01T20:00Z")
        ada_browser.cookies["zone"] = "America/New_York"
        assert "2 Jan 2026" in ada_browser.get("/settings/keys").text
        assert 'data-zone="Asia/Tokyo"' in ada_browser.get("/settings/keys").text

    def test_another_address_takes_the_password_and_must_be_free(self, ada, bob, ada_browser, subtests):
        wrong = {"no password": {}, "wrong password": {"current_password": "guess"}}
        for name, more in wrong.items():
            with subtests.test(name):
                answer = ada_browser.post("/settings/profile", {**self.VALUES, "email": "lovelace@example.org", **more})
                assert answer.status_code == 422
        for email in ("BOB@example.org", "nobody"):
            with subtests.test(email):
                values = {**self.VALUES, "email": email, "current_password": PASSWORD}
                assert ada_browser.post("/settings/profile", values).status_code == 422
        ada.refresh_from_db()
        assert (ada.email, ada.name) == ("ada@example.org", "Ada")
        values = {**self.VALUES, "email": "Lovelace@Example.org", "current_password": PASSWORD}
        assert ada_browser.post("/settings/profile", values).status_code == 302
        ada.refresh_from_db()
        assert ada.email == "lovelace@example.org"

    def test_an_unknown_time_zone_is_refused(self, ada, ada_browser):
        assert ada_browser.post("/settings/profile", {**self.VALUES, "time_zone": "../etc"}).status_code == 422
        ada.refresh_from_db()
        assert ada.time_zone == ""


class TestPassword:
    VALUES = {"current_password": PASSWORD, "new_password": NEW_PASSWORD, "again": NEW_PASSWORD}

    def test_a_new_password_keeps_this_browser_signed_in_and_no_other(self, ada, ada_browser, browser_of):
        other = browser_of(ada)
        assert ada_browser.post("/settings/password", self.VALUES).status_code == 302
        ada.refresh_from_db()
        assert ada.check_password(NEW_PASSWORD)
        assert ada_browser.get("/settings/password").status_code == 200
        assert other.get("/settings/password")["Location"].startswith("/sign-in")

    def test_a_wrong_a_weak_and_a_mistyped_password_change_nothing(self, ada, ada_browser, subtests):
        wrong = {"current_password": "guess"}, {"new_password": "pass", "again": "pass"}, {"again": "another thing"}
        for values in (*wrong, {"new_password": "", "again": ""}, {"new_password": "password", "again": "password"}):
            with subtests.test(**values):
                answer = ada_browser.post("/settings/password", {**self.VALUES, **values})
                assert answer.status_code == 422
                assert 'role="alert"' in answer.text
        ada.refresh_from_db()
        assert ada.check_password(PASSWORD)

    def test_a_taken_over_browser_cannot_try_many_passwords(self, ada, ada_browser):
        for _ in range(MOST_FAILURES):
            ada_browser.post("/settings/password", {**self.VALUES, "current_password": "guess"})
        assert ada_browser.post("/settings/password", self.VALUES).status_code == 422
        ada.refresh_from_db()
        assert ada.check_password(PASSWORD)


class TestAppearance:
    def test_it_is_in_every_page_of_the_person_from_the_first_byte_on_every_device(self, ada, bob, browser_of):
        assert browser_of(ada).post("/settings/appearance", {"theme": "dark"}).status_code == 302
        page = browser_of(ada).get("/inbox").text
        [tag] = re.findall("<html[^>]*>", page)
        assert 'data-theme="dark"' in tag
        assert "data-theme" not in re.findall("<html[^>]*>", browser_of(bob).get("/inbox").text)[0]

    def test_each_change_has_a_higher_version_so_that_kept_pages_are_known_to_be_older(self, ada, ada_browser):
        versions = [
            ada_browser.post("/settings/appearance/theme", {"theme": one}).json()["version"] for one in ("dark", "")
        ]
        assert versions == [1, 2]
        assert f'data-appearance="{ada.pk} 2"' in ada_browser.get("/inbox").text
        assert ada_browser.post("/settings/appearance/theme", {"theme": "pink"}).status_code == 422
        assert ada_browser.post("/settings/appearance", {"theme": "pink"}).status_code == 422


def test_what_a_person_does_not_want_to_hear_of_is_left_out(ada_browser):
    assert 'data-notified-of="ended questions"' in ada_browser.get("/inbox").text
    assert ada_browser.post("/settings/notifications", {"notify_questions": "on"}).status_code == 302
    assert 'data-notified-of=" questions"' in ada_browser.get("/inbox").text


@pytest.mark.django_db(transaction=True)  # a thread writes a key's last use
class TestKeys:
    def test_a_key_is_shown_once_with_a_command_and_works(self, ada, ada_browser):
        answer = ada_browser.post("/settings/keys", KEY)
        text = key_in(answer)
        assert api_key_principal(f"Bearer {text}").user_id == ada.pk
        assert "no-store" in answer["Cache-Control"]
        assert f"Authorization: Bearer {text}" in answer.text
        assert text not in ada_browser.get("/settings/keys").text
        key = ApiKey.objects.get()
        assert (key.name, key.scopes, (key.expires_at - key.created_at).days) == ("laptop", [READ], 29)

    def test_without_password_scope_or_name_there_is_no_key(self, ada, ada_browser, subtests):
        wrong = {"current_password": ""}, {"current_password": "guess"}, {"scopes": []}, {"name": ""}, {"days": "8"}
        for values in (*wrong, {"scopes": ["root"]}):
            with subtests.test(**values):
                assert ada_browser.post("/settings/keys", {**KEY, **values}).status_code == 422
        assert not ApiKey.objects.exists()

    def test_a_preset_says_what_the_key_may_do_and_an_agent_limits_it(self, ada, echo, ada_browser, subtests):
        wanted = {"read": {READ}, "call": {READ, WRITE}, "full": {*SCOPES}}
        for preset, scopes in wanted.items():
            with subtests.test(preset):
                answer = ada_browser.post("/settings/keys", {**KEY, "preset": preset, "scopes": [], "agent": "echo"})
                caller = api_key_principal(f"Bearer {key_in(answer)}")
                assert (caller.scopes, caller.agents) == (scopes, {"echo"})
        for wrong in ({"preset": "call", "agent": ""}, {"agent": "nobody"}, {"preset": "chosen", "scopes": []}):
            assert ada_browser.post("/settings/keys", {**KEY, **wrong}).status_code == 422

    def test_a_rotated_key_is_shown_once_after_the_password(self, ada, bob, ada_browser, bob_browser):
        old = key_in(ada_browser.post("/settings/keys", KEY))
        place = f"/settings/keys/{ApiKey.objects.get().pk}/rotate"
        assert (ada_browser.get(place).status_code, bob_browser.get(place).status_code) == (200, 404)
        assert ada_browser.post(place, {"hours": "0", "current_password": "guess"}).status_code == 422
        new = key_in(ada_browser.post(place, {"hours": "0", "current_password": PASSWORD}))
        assert api_key_principal(f"Bearer {new}").user_id == ada.pk
        with pytest.raises(BadCredentials):
            api_key_principal(f"Bearer {old}")

    def test_revoking_asks_first_and_somebody_elses_key_is_not_found(self, ada, bob, ada_browser, bob_browser):
        text = key_in(ada_browser.post("/settings/keys", {**KEY, "days": "0"}))
        key = ApiKey.objects.get()
        assert key.expires_at is None
        place = f"/settings/keys/{key.pk}/revoke"
        assert (bob_browser.get(place).status_code, bob_browser.post(place).status_code) == (404, 404)
        assert ada_browser.get(place).status_code == 200
        assert api_key_principal(f"Bearer {text}").is_known
        assert ada_browser.post(place, follow=True).status_code == 200
        with pytest.raises(BadCredentials):
            api_key_principal(f"Bearer {text}")

    def test_too_many_keys_at_once_are_refused_with_a_sentence(self, ada_browser, settings):
        settings.KEY_CHANGES_PER_MINUTE = 0
        assert ada_browser.post("/settings/keys", KEY).status_code == 422

    def test_an_agents_samples_contain_a_key_that_may_only_send_and_expires(self, ada, echo, ada_browser):
        assert "YOUR-KEY" in ada_browser.get("/agents/echo").text
        for headers in ({"HX-Request": "true"}, {}):
            answer = ada_browser.post("/agents/echo/key", {"current_password": PASSWORD}, headers=headers)
            caller = api_key_principal(f"Bearer {key_in(answer)}")
            assert (caller.may(WRITE), caller.may(READ)) == (True, False)
            assert "YOUR-KEY" not in answer.text
        key = ApiKey.objects.first()
        assert (key.name, (key.expires_at - key.created_at).days) == (echo.name, 29)

    def test_samples_get_no_key_without_the_password_nor_of_an_unknown_agent(self, ada, echo, ada_browser):
        answer = ada_browser.post("/agents/echo/key", {"current_password": "guess"}, headers={"HX-Request": "true"})
        assert "YOUR-KEY" in answer.text
        assert ada_browser.post("/agents/nobody/key", {"current_password": PASSWORD}).status_code == 404
        assert not ApiKey.objects.exists()


def test_a_settings_page_takes_few_queries(ada, ada_browser, django_assert_max_num_queries):
    for number in range(30):
        ApiKey.issue(ada, f"key {number}")
    with django_assert_max_num_queries(11):
        assert ada_browser.get("/settings/keys").text.count("Revoke</a>") == 30


def test_a_name_is_text_and_never_markup(ada, ada_browser):
    User.objects.filter(pk=ada.pk).update(name="<b>Ada</b>")
    ApiKey.issue(ada, "<i>laptop</i>")
    assert "<b>Ada" not in ada_browser.get("/settings/profile").text
    assert "<i>laptop" not in ada_browser.get("/settings/keys").text
