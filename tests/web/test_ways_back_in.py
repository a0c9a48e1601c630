"""Links by e-mail: a forgotten password, and a new address; and the browsers in which a person is signed in."""

import re

from allauth.usersessions.models import UserSession
from django.test import Client

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import User
from apps.web.settings.erasure import erase_account
from apps.web.settings.security import browser_name
from tests.web.letters import letters, path_in

__all__ = ["letters"]

PASSWORD = "correct horse"
NEW_PASSWORD = "a longer staple battery"


class TestForgottenPassword:
    def test_a_link_leads_back_in_once_and_ends_the_lock(self, ada, letters, settings):
        for number in range(10):
            Client().post("/sign-in", {"username": ada.email, "password": f"guess {number}"})
        assert Client().post("/forgotten", {"email": "ADA@example.org"}).status_code == 200
        [letter] = letters
        assert letter.to == [ada.email]
        browser, link = Client(), path_in(letter, settings)
        form = browser.get(link, follow=True).redirect_chain[-1][0]
        assert browser.post(form, {"new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD})["Location"] == "/"
        assert browser.get("/inbox").status_code == 200
        assert "no longer works" in Client().get(link, follow=True).text
        assert Client().post("/sign-in", {"username": ada.email, "password": NEW_PASSWORD}).status_code == 302
        made = AuditEntry.objects.get(action=AuditAction.SIGN_IN_LINK_MADE)
        assert (made.actor_kind, made.object_label) == ("anonymous", ada.email)

    def test_the_answer_does_not_tell_whether_there_is_an_account(self, ada, bob, letters):
        User.objects.filter(pk=bob.pk).update(is_active=False)
        addresses = (ada.email, bob.email, "eve@example.org")
        pages = [Client().post("/forgotten", {"email": email}).text.replace(email, "") for email in addresses]
        shapes = {re.sub(r'nonce="[^"]*"', "", page) for page in pages}
        assert len(shapes) == 1
        assert [letter.to for letter in letters] == [[ada.email]]

    def test_nobody_can_have_many_letters_sent(self, ada, letters):
        answers = [Client().post("/forgotten", {"email": ada.email}).status_code for _ in range(6)]
        assert answers == [200] * 5 + [429]
        assert len(letters) == 5

    def test_without_a_mail_server_the_page_sends_people_to_an_operator(self, ada, client):
        assert "<form" not in client.get("/forgotten").text
        assert client.post("/forgotten", {"email": ada.email}).status_code == 200
        assert not AuditEntry.objects.filter(action=AuditAction.SIGN_IN_LINK_MADE).exists()


class TestNewAddress:
    VALUES = {"name": "Ada", "email": "lovelace@example.org", "time_zone": "", "current_password": PASSWORD}

    def test_it_counts_once_it_is_confirmed_and_the_old_address_is_told(self, ada, ada_browser, letters, settings):
        ada_browser.post("/settings/profile", self.VALUES)
        ada.refresh_from_db()
        assert ada.email == "ada@example.org"
        [letter] = letters
        assert letter.to == ["lovelace@example.org"]
        link = path_in(letter, settings)
        assert Client().get(link).status_code == 200
        ada.refresh_from_db()
        assert ada.email == "ada@example.org", "programs that check letters follow links"
        assert Client().post(link).status_code == 302
        ada.refresh_from_db()
        assert ada.email == "lovelace@example.org"
        assert letters[-1].to == ["ada@example.org"]
        assert Client().post(link).status_code == 410
        assert AuditEntry.objects.get(action=AuditAction.EMAIL_CHANGED).details == {"before": "ada@example.org"}

    def test_an_address_that_somebody_took_meanwhile_is_refused(self, ada, bob, ada_browser, letters, settings):
        ada_browser.post("/settings/profile", self.VALUES)
        User.objects.filter(pk=bob.pk).update(email="lovelace@example.org")
        assert Client().post(path_in(letters[0], settings)).status_code == 410
        ada.refresh_from_db()
        assert ada.email == "ada@example.org"

    def test_an_old_address_signs_in_no_more_however_it_was_changed(self, ada, letters):
        assert Client().post("/sign-in", {"username": ada.email, "password": PASSWORD}).status_code == 302
        User.objects.filter(pk=ada.pk).update(email="lovelace@example.org")
        assert Client().post("/sign-in", {"username": "ada@example.org", "password": PASSWORD}).status_code == 200
        erase_account(ada)
        assert Client().post("/sign-in", {"username": "lovelace@example.org", "password": PASSWORD}).status_code == 200


class TestBrowsers:
    def signed_in(self, user: User, agent: str) -> Client:
        browser = Client(headers={"User-Agent": agent})
        browser.post("/sign-in", {"username": user.email, "password": PASSWORD})
        return browser

    def test_they_are_listed_and_one_can_be_signed_out(self, ada):
        here, there = self.signed_in(ada, "Netscape"), self.signed_in(ada, "Mosaic")
        page = here.get("/settings/security").text
        assert "Netscape" in page
        assert "Mosaic" in page
        assert browser_name("Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0 Safari/537.36") == "Chrome on Linux"
        number = UserSession.objects.get(user_agent="Mosaic").pk
        assert here.post(f"/settings/security/sessions/{number}/end").status_code == 302
        assert there.get("/inbox")["Location"].startswith("/sign-in")
        assert here.get("/inbox").status_code == 200
        assert "Mosaic" not in here.get("/settings/security").text

    def test_somebody_elses_is_not_found(self, ada, bob_browser):
        self.signed_in(ada, "Netscape")
        number = UserSession.objects.get().pk
        assert bob_browser.post(f"/settings/security/sessions/{number}/end").status_code == 404
        assert UserSession.objects.exists()

    def test_all_others_can_be_signed_out_at_once_listed_or_not(self, ada, browser_of):
        here, there, unlisted = self.signed_in(ada, "Netscape"), self.signed_in(ada, "Mosaic"), browser_of(ada)
        assert here.post("/settings/security/sessions/end").status_code == 302
        for browser in (there, unlisted):
            assert browser.get("/inbox")["Location"].startswith("/sign-in")
        assert here.get("/inbox").status_code == 200
        assert AuditEntry.objects.filter(action=AuditAction.SESSIONS_ENDED).exists()
