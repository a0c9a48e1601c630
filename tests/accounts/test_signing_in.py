"""Signing in, what failed attempts cost, the ways back in, and how people join: invited, by links, or by themselves."""

import base64
import datetime
import pickle
import re
import time
from itertools import count

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth import authenticate
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import CacheEntry, Invitation, User
from apps.accounts.pages.security import browser_name
from apps.accounts.people import invitations, links
from tests.clients.of_pages import path_in

pytestmark = pytest.mark.django_db

PASSWORD, NEW_PASSWORD = "correct horse", "a longer staple battery"
LOCKED = "too_many_login_attempts"
MOST_FAILURES = 10  # as ACCOUNT_RATE_LIMITS says
ADDRESSES = count(1)


def sign_in(client, email, password=PASSWORD, address="203.0.113.1", **more):
    return client.post("/sign-in", {"username": email, "password": password, **more}, REMOTE_ADDR=address)


def is_locked(answer):
    return answer.status_code == 200 and answer.context["form"].has_error("__all__", LOCKED)


def guess(email, times=MOST_FAILURES, password="guess {}"):
    """Fail as a stranger at new addresses; each attempt is checked."""
    for number, one in zip(range(times), ADDRESSES, strict=False):
        address = f"198.51.{one // 250}.{one % 250}"
        assert not is_locked(sign_in(Client(), email.format(number), password.format(number), address))


def is_signed_in(browser):
    return browser.get("/inbox").status_code == 200


def test_password_leads_to_the_asked_page_of_here(client, ada):
    for leads in ["/", "/agents"]:
        assert sign_in(client, "ADA@example.org", next=leads)["Location"] == leads
    for elsewhere in ["https://evil.example/", "//evil.example", "javascript:alert(1)"]:
        assert sign_in(client, ada.email, next=elsewhere)["Location"] == "/", elsewhere
    for address in ["::ffff:203.0.113.1", "2001:db8::1"]:
        assert sign_in(client, ada.email, address=address).status_code == 302, address


def test_answer_does_not_tell_whether_address_is_known(client, ada):
    answers = [sign_in(client, email, "wrong") for email in (ada.email, "eve@example.org")]
    told, same = [answer.context["form"].non_field_errors() for answer in answers]
    assert (bool(told), told) == (True, same)
    assert 'value="ada@example.org"' in answers[0].text


def test_signing_out_takes_a_form(ada_browser, ada):
    assert ada_browser.get("/sign-out").status_code == 405
    assert ada_browser.post("/sign-out").status_code == 302
    assert ada_browser.get("/")["Location"] == "/sign-in?next=/"
    assert sign_in(Client(enforce_csrf_checks=True), ada.email).status_code == 403


LIMITS = [  # guesses at accounts, their password, and the address that they come from
    ("wrong_passwords_of_address", "50/10m/key", "nobody{}@example.org", "guess {}", "203.0.113.1"),
    ("wrong_password_of_many", "20/10m/key", "nobody{}@example.org", PASSWORD, ""),
    ("wrong_passwords", "1000/10m/key", "nobody{}@example.org", "guess {}", ""),
]


class TestFailedAttempts:
    @pytest.mark.parametrize(("limit", "rate", "email", "password", "address"), LIMITS)
    def test_guesses_at_many_accounts_are_limited(self, ada, settings, limit, rate, email, password, address):
        assert settings.ACCOUNT_RATE_LIMITS[limit] == rate
        settings.ACCOUNT_RATE_LIMITS = {**settings.ACCOUNT_RATE_LIMITS, limit: "3/10m/key"}
        for number in range(3):
            from_there = address or f"198.51.100.{number}"
            assert not is_locked(sign_in(Client(), email.format(number), password.format(number), from_there))
        assert is_locked(sign_in(Client(), ada.email, address=address or "192.0.2.9"))

    def test_account_is_locked_from_everywhere_and_for_admin(self, ada, monkeypatch):
        User.objects.filter(pk=ada.pk).update(is_staff=True)
        guess(ada.email)
        assert is_locked(sign_in(Client(), ada.email, address="192.0.2.9"))
        assert Client().get("/admin/login/?next=/admin/")["Location"] == "/sign-in?next=%2Fadmin%2F"
        entry = AuditEntry.objects.filter(action=AuditAction.SIGN_IN_REFUSED).latest("number")
        assert entry.details == {"reason": "too many failed attempts"}
        counts = {one.pk: pickle.loads(base64.b64decode(one.value)) for one in CacheEntry.objects.all()}
        shared = [len(times) for key, times in counts.items() if "wrong_passwords_of_account" in key]
        assert shared == [MOST_FAILURES], "all processes see the counts"
        later = time.time() + 601
        monkeypatch.setattr(time, "time", lambda: later)
        assert sign_in(Client(), ada.email).status_code == 302, "the lock ends after ten minutes"

    def test_strangers_keep_nobody_out_of_a_known_browser(self, ada):
        own = Client()
        sign_in(own, ada.email)
        own.post("/sign-out")
        guess(ada.email)
        assert sign_in(own, ada.email).status_code == 302
        own.post("/sign-out")
        for number in range(MOST_FAILURES):
            assert not is_locked(sign_in(own, ada.email, f"guess {number}"))
        assert is_locked(sign_in(own, ada.email))

    def test_known_browser_is_not_forged_or_lent(self, ada, bob):
        own, forged = Client(), Client()
        sign_in(own, bob.email, "battery staple")
        forged.cookies["known-browser"] = own.cookies["known-browser"].value.replace(".", ".0", 1)
        guess(ada.email)
        own.post("/sign-out")
        for client in (own, forged):
            assert is_locked(sign_in(client, ada.email))

    def test_confirming_by_password_counts_too(self, ada, ada_browser, settings):
        settings.ACCOUNT_RATE_LIMITS = {**settings.ACCOUNT_RATE_LIMITS, "wrong_passwords_of_account": "2/10m/key"}
        for number in range(2):
            values = {"current_password": f"guess {number}", "new_password": NEW_PASSWORD, "again": NEW_PASSWORD}
            assert ada_browser.post("/settings/password", values).status_code == 422
        assert is_locked(sign_in(Client(), ada.email))
        values["current_password"] = PASSWORD
        assert ada_browser.post("/settings/password", values).status_code == 422, "a taken over browser tries few"

    def test_admin_refuses_who_is_no_operator(self, ada_browser):
        assert ada_browser.get("/admin/", follow=True).status_code == 403


class TestForgottenPassword:
    def test_link_leads_in_once_and_unlocks(self, ada, letters, settings):
        guess(ada.email)
        assert Client().post("/forgotten", {"email": "ADA@example.org"}).status_code == 200
        [letter] = letters
        assert letter.to == [ada.email]
        browser, link = Client(), path_in(letter, settings)
        form = browser.get(link, follow=True).redirect_chain[-1][0]
        assert browser.post(form, {"new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD})["Location"] == "/"
        assert is_signed_in(browser)
        assert not Client().get(link, follow=True).context["validlink"]
        assert sign_in(Client(), ada.email, NEW_PASSWORD).status_code == 302
        made = AuditEntry.objects.get(action=AuditAction.SIGN_IN_LINK_MADE)
        assert (made.actor_kind, made.object_label) == ("anonymous", ada.email)

    def test_letters_are_for_active_accounts_and_limited(self, ada, bob, letters):
        User.objects.filter(pk=bob.pk).update(is_active=False)
        answers = [
            (one, Client().post("/forgotten", {"email": one})) for one in (ada.email, bob.email, "eve@example.org")
        ]
        shapes = {re.sub(r'nonce="[^"]*"', "", answer.text.replace(email, "")) for email, answer in answers}
        assert len(shapes) == 1, "the answer does not tell whether there is an account"
        assert [letter.to for letter in letters] == [[ada.email]]
        statuses = [Client().post("/forgotten", {"email": ada.email}).status_code for _ in range(5)]
        assert (statuses[-1], len(letters)) == (429, 5)

    def test_without_a_mail_server_there_are_no_links(self, ada, client):
        assert "<form" not in client.get("/forgotten").text
        assert client.post("/forgotten", {"email": ada.email}).status_code == 200
        assert not AuditEntry.objects.filter(action=AuditAction.SIGN_IN_LINK_MADE).exists()


class TestNewAddress:
    VALUES = {"name": "Ada", "email": "lovelace@example.org", "time_zone": "", "current_password": PASSWORD}

    def email(self, ada):
        ada.refresh_from_db()
        return ada.email

    def test_it_counts_once_confirmed(self, ada, ada_browser, letters, settings):
        ada_browser.post("/settings/profile", self.VALUES)
        [letter] = letters
        assert letter.to == ["lovelace@example.org"]
        link = path_in(letter, settings)
        assert Client().get(link).status_code == 200
        assert self.email(ada) == "ada@example.org", "programs that check letters follow links"
        assert Client().post(link).status_code == 302
        assert self.email(ada) == "lovelace@example.org"
        assert letters[-1].to == ["ada@example.org"]
        assert Client().post(link).status_code == 410
        assert AuditEntry.objects.get(action=AuditAction.EMAIL_CHANGED).details == {"before": "ada@example.org"}


def test_other_browsers_are_listed_and_signed_out(ada, browser_of):
    def signed_in(agent):
        browser = Client(headers={"User-Agent": agent})
        sign_in(browser, ada.email)
        return browser

    here, there, third, unlisted = signed_in("Netscape"), signed_in("Mosaic"), signed_in("Lynx"), browser_of(ada)
    page = here.get("/settings/security").text
    assert [name in page for name in ("Netscape", "Mosaic")] == [True, True]
    assert browser_name("Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0 Safari/537.36") == "Chrome on Linux"
    number = UserSession.objects.get(user_agent="Mosaic").pk
    assert here.post(f"/settings/security/sessions/{number}/end").status_code == 302
    assert [is_signed_in(one) for one in (here, there, third, unlisted)] == [True, False, True, True]
    assert here.post("/settings/security/sessions/end").status_code == 302
    assert [is_signed_in(one) for one in (here, there, third, unlisted)] == [True, False, False, False]
    assert AuditEntry.objects.filter(action=AuditAction.SESSIONS_ENDED).exists()


PAGE = "/settings/invitations"
INVITE = reverse("admin:accounts_user_invite")


@pytest.fixture
def inviter(ada):
    return may(ada, "add_user")


def may(user, *rights):
    user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    User.objects.filter(pk=user.pk).update(is_staff=True)
    return User.objects.get(pk=user.pk)


def link_on(page):
    [link] = set(re.findall(r"https?://[^/]+(/(?:invitations|welcome)/[^<\"]+)", page.text))
    return link


@pytest.fixture
def link(inviter, browser_of):
    """A link for grace@example.org."""
    page = browser_of(inviter).post(PAGE, {"email": "Grace@example.org"})
    assert "no-store" in page["Cache-Control"]
    return link_on(page)


def accept(client, link, **values):
    return client.post(link, {"email": "grace@example.org", "name": "Grace", "password": NEW_PASSWORD, **values})


def test_invitation_is_sent_to_its_address(inviter, letters):
    inviter.name, inviter.personal_workspace.name = "Ada\n\nBcc: x", "Ours\n\nBcc: y"
    _, link = invitations.invite(inviter, "grace@example.org", inviter.personal_workspace, "member")
    [letter] = letters
    assert (letter.to, letter.subject) == (["grace@example.org"], "You are invited to Parley")
    lines = letter.body.splitlines()
    assert link in lines
    assert "Ada Bcc: x invites you to the workspace Ours Bcc: y in Parley. Open this link within 7 days:" in lines


def test_invited_person_comes_in_once(link):
    assert link.rpartition("/")[2] not in str(Invitation.objects.values())
    browser = Client()
    assert browser.get(link).status_code == 200
    assert accept(browser, link, email="eve@example.org")["Location"] == "/"
    assert browser.get("/inbox").status_code == 200
    assert not User.objects.filter(email="eve@example.org").exists(), "it is for its address alone"
    grace = User.objects.get(email="grace@example.org")
    assert (grace.name, grace.check_password(NEW_PASSWORD), grace.is_staff) == ("Grace", True, False)
    assert grace.personal_workspace
    assert not links.is_confirmed(grace)  # the inviter could read the link
    assert accept(Client(), link, email="eve@example.org").status_code == 410
    actions = AuditEntry.objects.filter(group="invitation").order_by("number").values_list("action", "actor_name")
    assert list(actions) == [
        (AuditAction.INVITED, "ada@example.org"),
        (AuditAction.INVITATION_ACCEPTED, "grace@example.org"),
    ]


def test_invitation_is_not_used_up_by_others(link, inviter, bob, bob_browser, browser_of):
    assert bob_browser.post(link).status_code == 200, "somebody else is signed in"
    assert accept(Client(), link, password="password").status_code == 200, "the password is weak"
    own = link_on(browser_of(inviter).post(PAGE, {"email": bob.email}))
    assert accept(Client(), own, email=bob.email).status_code == 200, "who has an account signs in"
    assert Invitation.objects.open().count() == 2
    assert not User.objects.filter(email="grace@example.org").exists()
    assert bob_browser.post(own)["Location"] == "/"
    assert Invitation.objects.get(used_by=bob)


@pytest.mark.parametrize("ended", ["expired", "inviter disabled", "withdrawn"])
def test_ended_invitations_make_no_account(inviter, link, browser_of, ended):
    if ended == "expired":
        Invitation.objects.update(expires_at=timezone.now() - datetime.timedelta(seconds=1))
    elif ended == "withdrawn":
        browser_of(inviter).post(f"{PAGE}/{Invitation.objects.get().pk}/withdraw")
    else:
        User.objects.filter(pk=inviter.pk).update(is_active=False)
    assert accept(Client(), link).status_code == 410
    assert not User.objects.filter(email="grace@example.org").exists()


def test_only_operators_who_may_invite(link, bob, bob_browser, browser_of):
    assert (bob_browser.get(PAGE).status_code, bob_browser.post(PAGE).status_code) == (403, 403)
    bob.user_permissions.add(Permission.objects.get(codename="add_user"))
    assert bob_browser.get(PAGE).status_code == 403, "for operators alone"
    assert "grace@example.org" not in browser_of(may(bob, "add_user")).get(PAGE).text


class TestSigningUp:
    def test_only_addresses_of_allowed_domains_get_a_link(self, client, letters, settings):
        assert client.post("/sign-up", {"email": "grace@example.org"}).status_code == 404, "nobody by default"
        settings.SIGN_UP_DOMAINS = ["example.org"]
        for address in ("eve@evil.example", "eve@sub.example.org", "Grace@Example.org"):
            client.post("/sign-up", {"email": address})
        [letter] = letters
        assert accept(Client(), path_in(letter, settings), email="eve@evil.example")["Location"] == "/"
        grace = User.objects.get(name="Grace")
        assert (grace.email, links.is_confirmed(grace)) == ("grace@example.org", True)

    def test_answer_does_not_tell_who_has_accounts(self, ada, letters, settings):
        settings.SIGN_UP_DOMAINS = ["*"]
        addresses = (ada.email, "grace@example.org")
        pages = [Client().post("/sign-up", {"email": email}).text.replace(email, "") for email in addresses]
        assert len({re.sub(r'nonce="[^"]*"', "", page) for page in pages}) == 1
        assert [letter.to for letter in letters] == [[ada.email], ["grace@example.org"]]
        assert path_in(letters[0], settings) == "/forgotten"


class TestLinksOfOperators:
    def welcome(self, link, password=NEW_PASSWORD):
        guest = Client()
        form = guest.get(link).url
        return guest, guest.post(form, {"new_password1": password, "new_password2": password})

    def test_person_sets_a_password_by_the_link_once(self, admin_client, ada):
        answer = admin_client.post(INVITE, {"email": "Grace@Example.org", "name": "Grace"})
        assert "no-store" in answer["Cache-Control"]
        link = link_on(answer)
        assert self.welcome(link, "short")[1].context["form"].errors
        User.objects.filter(email="grace@example.org").update(is_active=False)
        assert not Client().get(link, follow=True).context["validlink"]
        User.objects.filter(email="grace@example.org").update(is_active=True)
        guest, welcomed = self.welcome(link)
        assert welcomed.url == reverse("web:home")
        person = authenticate(username="grace@example.org", password=NEW_PASSWORD)
        assert (person.is_staff, person.personal_workspace.name) == (False, "Grace")
        assert guest.get(reverse("web:home")).context["user"] == person
        assert not Client().get(link, follow=True).context["validlink"]
        address = reverse("admin:accounts_user_link", args=[ada.pk])  # who forgot the password gets one, too
        assert "/welcome/" not in admin_client.get(address).text
        self.welcome(link_on(admin_client.post(address)))
        assert authenticate(username="ada@example.org", password=NEW_PASSWORD) == ada

    def test_only_superusers_invite_operators(self, admin_client, admin_user, ada, browser_of):
        def invited(browser, email):
            browser.post(INVITE, {"email": email, "is_superuser": "on"})
            return User.objects.filter(email=email).values_list("is_superuser", flat=True).first()

        assert invited(browser_of(ada), "first@example.org") is None, "members invite nobody"
        assert invited(admin_client, "second@example.org") is True
        assert admin_client.post(INVITE, {"email": "ADA@example.org"}).context["form"].errors["email"]
        operator = browser_of(may(ada, "add_user", "change_user", "view_user"))
        assert invited(operator, "third@example.org") is False
        assert operator.post(reverse("admin:accounts_user_link", args=[admin_user.pk])).status_code == 403
