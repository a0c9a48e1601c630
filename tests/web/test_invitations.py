"""Inviting people, accepting, and signing up."""

import datetime
import re

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import Invitation, User
from apps.accounts.people import links
from tests.web.letters import letters, path_in

__all__ = ["letters"]
PASSWORD = "a longer staple battery"
PAGE = "/settings/invitations"


@pytest.fixture
def inviter(ada) -> User:
    ada.user_permissions.add(Permission.objects.get(codename="add_user"))
    User.objects.filter(pk=ada.pk).update(is_staff=True)
    return User.objects.get(pk=ada.pk)


def link_on(page, settings) -> str:
    [link] = re.findall(re.escape(settings.PUBLIC_BASE_URL) + r"(/invitations/[\w-]+)", page.text)
    return link


@pytest.fixture
def link(inviter, browser_of, settings) -> str:
    """A link for grace@example.org."""
    page = browser_of(inviter).post(PAGE, {"email": "Grace@example.org"})
    assert "no-store" in page["Cache-Control"]
    return link_on(page, settings)


def accept(client: Client, link: str, **values: str):
    return client.post(link, {"email": "grace@example.org", "name": "Grace", "password": PASSWORD, **values})


def test_a_new_person_comes_in_by_it_once_and_is_signed_in(link):
    browser = Client()
    assert browser.get(link).status_code == 200
    assert accept(browser, link)["Location"] == "/"
    assert browser.get("/inbox").status_code == 200
    grace = User.objects.get(email="grace@example.org")
    assert (grace.name, grace.check_password(PASSWORD), grace.is_staff) == ("Grace", True, False)
    assert grace.personal_workspace
    assert not links.is_confirmed(grace)  # the inviter could read the link
    assert accept(Client(), link, email="eve@example.org").status_code == 410
    actions = AuditEntry.objects.filter(group="invitation").order_by("number").values_list("action", "actor_name")
    assert list(actions) == [
        (AuditAction.INVITED, "ada@example.org"),
        (AuditAction.INVITATION_ACCEPTED, "grace@example.org"),
    ]


def test_it_is_for_its_address_alone(link, bob_browser):
    accept(Client(), link, email="eve@example.org")
    assert not User.objects.filter(email="eve@example.org").exists()
    assert User.objects.filter(email="grace@example.org").exists()


def test_somebody_else_who_is_signed_in_cannot_use_it(link, bob_browser):
    assert bob_browser.post(link).status_code == 200
    assert Invitation.objects.open().exists()


def test_a_weak_password_makes_no_account(link):
    assert accept(Client(), link, password="password").status_code == 200
    assert not User.objects.filter(email="grace@example.org").exists()
    assert Invitation.objects.open().exists()


def test_who_has_an_account_is_asked_to_sign_in(inviter, bob, browser_of, settings):
    link = link_on(browser_of(inviter).post(PAGE, {"email": bob.email}), settings)
    assert accept(Client(), link, email=bob.email).status_code == 200
    assert Invitation.objects.open().exists()
    assert browser_of(bob).post(link)["Location"] == "/"
    assert Invitation.objects.get().used_by == bob


def test_an_expired_a_withdrawn_and_a_disabled_inviters_link_work_no_more(inviter, link, browser_of, subtests):
    mine = Invitation.objects.get()
    with subtests.test("expired"):
        Invitation.objects.update(expires_at=timezone.now() - datetime.timedelta(seconds=1))
        assert accept(Client(), link).status_code == 410
        Invitation.objects.update(expires_at=timezone.now() + datetime.timedelta(days=1))
    with subtests.test("disabled"):
        User.objects.filter(pk=inviter.pk).update(is_active=False)
        assert accept(Client(), link).status_code == 410
        User.objects.filter(pk=inviter.pk).update(is_active=True)
    with subtests.test("withdrawn"):
        assert browser_of(inviter).post(f"{PAGE}/{mine.pk}/withdraw").status_code == 302
        assert accept(Client(), link).status_code == 410
    assert not User.objects.filter(email="grace@example.org").exists()


def test_only_who_may_invites_and_sees_their_own(link, bob, bob_browser, browser_of):
    number = Invitation.objects.get().pk
    assert (bob_browser.get(PAGE).status_code, bob_browser.post(PAGE).status_code) == (403, 403)
    assert bob_browser.post(f"{PAGE}/{number}/withdraw").status_code == 404
    bob.user_permissions.add(Permission.objects.get(codename="add_user"))
    assert bob_browser.get(PAGE).status_code == 403, "for operators alone"
    bob.is_staff = True
    bob.save()
    assert "grace@example.org" not in browser_of(bob).get(PAGE).text
    assert Invitation.objects.open().exists()


def test_the_database_has_no_link(link):
    assert link.rpartition("/")[2] not in str(Invitation.objects.values())


def test_an_invitation_with_an_address_is_sent_there(inviter, browser_of, letters, settings):
    page = browser_of(inviter).post(PAGE, {"email": "grace@example.org"})
    [letter] = letters
    assert letter.to == ["grace@example.org"]
    assert path_in(letter, settings) == link_on(page, settings)


class TestSigningUp:
    def test_nobody_can_by_default(self, client, letters):
        assert client.get("/sign-up").status_code == 404
        assert client.post("/sign-up", {"email": "grace@example.org"}).status_code == 404
        assert "/sign-up" not in client.get("/sign-in").text

    def test_an_address_of_an_allowed_domain_gets_a_link_and_no_other(self, client, ada, letters, settings):
        settings.SIGN_UP_DOMAINS = ["example.org"]
        assert "/sign-up" in client.get("/sign-in").text
        client.post("/sign-up", {"email": "eve@evil.example"})
        client.post("/sign-up", {"email": "eve@sub.example.org"})
        assert letters == []
        client.post("/sign-up", {"email": "Grace@Example.org"})
        [letter] = letters
        assert accept(Client(), path_in(letter, settings), email="eve@evil.example")["Location"] == "/"
        grace = User.objects.get(name="Grace")
        assert (grace.email, links.is_confirmed(grace)) == ("grace@example.org", True)

    def test_the_answer_does_not_tell_whether_there_is_an_account(self, ada, letters, settings):
        settings.SIGN_UP_DOMAINS = ["*"]
        addresses = (ada.email, "grace@example.org")
        pages = [Client().post("/sign-up", {"email": email}).text.replace(email, "") for email in addresses]
        assert len({re.sub(r'nonce="[^"]*"', "", page) for page in pages}) == 1
        assert [letter.to for letter in letters] == [[ada.email], ["grace@example.org"]]
        assert path_in(letters[0], settings) == "/forgotten"
